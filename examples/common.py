"""What the examples share: two spirals to classify, and a picture of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl

mpl.use('Agg')
import matplotlib.pyplot as plt
import numpy as np


def spirals(
  seed: int, count: int = 512, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
  """Points on two spirals, shape (count, 2), and labels 0 or 1, (count,)."""
  rng = np.random.default_rng(seed)
  labels = rng.integers(0, 2, count)
  turn = 0.25 + 1.75 * rng.random(count)  # in full turns
  angle = 2 * np.pi * (turn + labels / 2)
  points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * turn[:, None]
  points += noise * rng.standard_normal(points.shape)
  return points.astype(np.float32), labels.astype(np.int32)


class History:
  """What happened in a run; `draw` makes a picture of it."""

  def __init__(self, name: str = 'run') -> None:
    self.name, self.rates, self.metrics, self.events = name, {}, {}, []

  def saw(
    self,
    step: int,
    events: Sequence[Mapping[str, Any]],
    rate: float | None = None,
  ) -> None:
    """Keeps a step's events and rate, and prints switches and resets."""
    if rate is not None:
      self.rates[step] = rate
    for event in events:
      self.events.append((step, event))
      if event['event'] in ('switch', 'reset'):
        strength = f', tau {event["tau"]:.2f}' if 'tau' in event else ''
        print(f'step {step}: {event["event"]}, {event["reason"]}{strength}')


def draw(
  path: str,
  histories: Sequence[History],
  target: float | None = None,
  metric: str = 'accuracy',
) -> None:
  """Plots metric and learning rate, one line per run; dotted: resets."""
  figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(7, 5))
  for history in histories:
    top.plot(*zip(*history.metrics.items()), '.-', label=history.name)
    bottom.plot(*zip(*history.rates.items()), label=history.name)
    for step, event in history.events:
      if event['event'] == 'reset' and history is histories[0]:
        top.axvline(step, ls=':', c='grey')
        text = f'τ = {event["tau"]:.2f}, {event["reason"]}'
        where = {'xycoords': ('data', 'axes fraction'), 'rotation': 90}
        offset = {'xytext': (3, 4), 'textcoords': 'offset points'}
        top.annotate(text, (step, 0), fontsize=8, **where, **offset)
  if max(histories[0].rates.values()) > 1e3:
    bottom.set(yscale='log', ylim=(1e-6, None))
  if target is not None:
    top.axhline(target, ls='--', c='k', lw=0.8)
  top.set_ylabel(f'validation {metric}')
  bottom.set(xlabel='step', ylabel='learning rate')
  if len(histories) > 1:
    top.legend()
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  plt.close(figure)

"""What the examples share: two spirals, cycles for them, what is printed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import optax

from reset_cycles import THESIS, Event
from reset_cycles.core.schedules import Cycle


def spirals(
  seed: int, count: int = 64, noise: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
  """Points on two spirals, shape (count, 2), and labels 0 or 1, (count,)."""
  rng = np.random.default_rng(seed)
  labels = rng.integers(0, 2, count)
  turn = 0.25 + 1.75 * rng.random(count)  # in full turns
  angle = 2 * np.pi * (turn + labels / 2)
  points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * turn[:, None]
  points += noise * rng.standard_normal(points.shape)
  return points.astype(np.float32), labels.astype(np.int32)


TEST = spirals(2**31, count=512)
# Peaks that suit the spirals: eight and four times the thesis'.
HIGH = dataclasses.replace(THESIS, cycles=(Cycle(peak=0.014),) * 3)
LOW = dataclasses.replace(THESIS, cycles=(Cycle(peak=0.007),) * 3)
# Of AdamW. The best one lies between the ends.
PEAKS = (0.003, 0.01, 0.03, 0.1, 0.3)


def scores(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The mean loss and the accuracy."""
  losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return losses.mean(), (logits.argmax(axis=-1) == labels).mean()


def tell(events: Sequence[Event], see: str) -> None:
  """Prints the decisions, the evaluation before each, and what was reached.

  Args:
    events: of a run whose metric is an accuracy; one evaluation at least.
    see: what a reader should see in them, a sentence.
  """
  measured = [event for event in events if event.kind == 'evaluation']
  for event, following in zip(events, [*events[1:], None]):
    is_before_decision = following is None or following.kind != 'evaluation'
    if event.kind != 'evaluation' or is_before_decision:
      print(event)
  numbers = measured[-1].numbers
  metric, steps = numbers['metric'], numbers['metric_step']
  print(f'Reached: an accuracy of {metric:.3f} after {steps} steps. {see}')


def beside_adamw(
  ours: float, train: Callable[[Any], float], steps: int
) -> dict[str, float]:
  """Trains with AdamW at five peaks, and prints what all have reached.

  Args:
    ours: the accuracy that schedule_free_muon has reached.
    train: an optimizer of optax -> the accuracy that it reaches.
    steps: of each run; AdamW has one cosine over them, after a short warm-up.
  """
  reached = {'schedule_free_muon, no rate to choose': ours}
  for peak in PEAKS:
    rate = optax.warmup_cosine_decay_schedule(0.0, peak, steps // 50, steps)
    reached[f'AdamW, peak {peak}'] = train(optax.adamw(rate))
  for name, accuracy in reached.items():
    print(f'{name}: an accuracy of {accuracy:.3f}')
  best = max(list(reached.values())[1:])
  print(
    f'Reached: an accuracy of {ours:.3f} after {steps} steps; by AdamW at its '
    f'best of five peaks {best:.3f}.'
  )
  return reached

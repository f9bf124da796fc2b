"""What a step of `schedule_free_muon` costs beside AdamW's.

Arms take turns in one process, and each step is waited for. Of a figure the
median is printed, and in brackets its quartiles.
"""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ... import State
from .. import small
from .networks import LARGER, Network, classes
from .without_rate import network_of, one_step, transformation

ARMS = ('adamw', 'schedule_free', 'optax_muon', 'ours')
NETWORKS = LARGER
# Two hidden layers between 64 inputs and 10 classes: (width, batch).
GRID = {
  f'dense_{width}_{batch}': (width, batch)
  for width in (64, 256, 1024)
  for batch in (32, 512)
}
_WARM_UP = 3


def dense(width: int, batch: int) -> Network:
  """A network of Dense layers, and data of nothing: only time counts."""

  def draw(data: Any, key: jax.Array) -> Any:
    del key
    return data

  rng = np.random.default_rng(0)
  data = (
    rng.normal(size=(batch, 64)).astype(np.float32),
    rng.integers(0, 10, batch),
  )
  init = lambda key: small.layers(key, 64, width, width, 10)
  score = classes(small.apply_layers)
  return Network(init, score, draw, data, data, 100)


def _always(value: Any) -> Callable[[Any], Any]:
  return lambda _: value


def seconds_of(network: Network, rounds: int) -> dict[str, np.ndarray]:
  """Seconds of each step, by arm: shape=(rounds,)."""
  steps: dict[str, Callable[[], Any]] = {}
  for arm in ARMS:
    tx = transformation(arm, 1e-3, network)
    step = jax.jit(one_step(network, _always(tx)))
    params = network.init(jax.random.PRNGKey(0))
    held = [State(params, tx.init(params))]

    def take(held: list[State] = held, step: Any = step) -> Any:
      held[0] = step(network.data, held[0], jax.random.PRNGKey(0), 0, 0.0)
      return jax.block_until_ready(held[0])

    steps[arm] = take
  found: dict[str, list[float]] = {arm: [] for arm in ARMS}
  for i in range(_WARM_UP + rounds):
    for arm in ARMS if i % 2 else ARMS[::-1]:
      begin = time.perf_counter()
      steps[arm]()
      if i >= _WARM_UP:
        found[arm].append(time.perf_counter() - begin)
  return {arm: np.asarray(times) for arm, times in found.items()}


def row_of(name: str, seconds: dict[str, np.ndarray]) -> str:
  """A line: AdamW's milliseconds, and the ratio of each other arm's to it."""
  base = seconds['adamw']
  cells = [name, f'{1e3 * np.median(base):.2f}']
  for arm in ARMS[1:]:
    low, middle, high = np.percentile(seconds[arm] / base, (25, 50, 75))
    cells.append(f'{middle:.2f} ({low:.2f} to {high:.2f})')
  return f'| {" | ".join(cells)} |'


def table(names: Sequence[str], rounds: int, folder: pathlib.Path) -> str:
  """A row for each network, in Markdown."""
  lines = [
    "| network | AdamW, ms | Schedule-Free AdamW | optax's Muon "
    '| `schedule_free_muon` |',
    '|---|---|---|---|---|',
  ]
  for name in names:
    make = functools.partial(network_of, name, folder)
    if name in GRID:
      make = functools.partial(dense, *GRID[name])
    lines.append(row_of(name, seconds_of(make(), rounds)))
  return '\n'.join(lines)

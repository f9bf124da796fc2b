"""What a step of `schedule_free_muon` costs beside AdamW's, on a CPU.

Arms take turns in one process. Seconds are those of the processor, in all
threads: those for which other programs have it do not count.
"""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ... import State
from .. import run_logs, small
from .networks import LARGER, Network, classes
from .without_rate import network_of, one_step, transformation

LOG = pathlib.Path(__file__).with_name('step_times.csv')
KEY = ('network', 'arm')
# Steps of each arm; the median of AdamW's milliseconds; of the ratio to AdamW's
# step in the same round the quartiles.
FIELDS = (*KEY, 'rounds', 'adamw_ms', 'low', 'middle', 'high')
ARMS: tuple[str, ...] = ('ours', 'schedule_free', 'optax_muon')
# Two hidden layers between 64 inputs and 10 classes: (width, batch). Of their
# arms only `ours` is timed.
WIDTHS, BATCHES = (32, 128, 512, 1024), (32, 128, 512, 2048)
GRID = {
  f'dense_{width}_{batch}': (width, batch)
  for width in WIDTHS
  for batch in BATCHES
}
NETWORKS = ('cnn', *LARGER)
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


def seconds_of(
  network: Network, arms: Sequence[str], rounds: int
) -> dict[str, np.ndarray]:
  """Seconds of each step, by arm: shape=(rounds,)."""
  steps: dict[str, Callable[[], Any]] = {}
  for arm in arms:
    tx = transformation(arm, 1e-3, network)
    step = jax.jit(one_step(network, _always(tx)))
    params = network.init(jax.random.PRNGKey(0))
    cell = [State(params, tx.init(params))]

    def take(cell: list[State] = cell, step: Any = step) -> Any:
      cell[0] = step(network.data, cell[0], jax.random.PRNGKey(0), 0, 0.0)
      return jax.block_until_ready(cell[0])

    steps[arm] = take
  seconds: dict[str, list[float]] = {arm: [] for arm in arms}
  for i in range(_WARM_UP + rounds):
    for arm in arms if i % 2 else arms[::-1]:
      begin = time.process_time()
      steps[arm]()
      if i >= _WARM_UP:
        seconds[arm].append(time.process_time() - begin)
  return {arm: np.asarray(times) for arm, times in seconds.items()}


def rows_of(name: str, seconds: Mapping[str, np.ndarray]) -> list[list[str]]:
  """Rows of the log, of what `seconds_of` gives: one for each arm but AdamW."""
  base = seconds['adamw']
  rows = []
  for arm, times in seconds.items():
    if arm != 'adamw':
      quartiles = np.percentile(times / base, (25, 50, 75))
      numbers = (1e3 * np.median(base), *quartiles)
      cells = (f'{number:.3f}' for number in numbers)
      rows.append([name, arm, str(len(base)), *cells])
  return rows


def measure(
  names: Sequence[str], rounds: int, folder: pathlib.Path, log: pathlib.Path
) -> None:
  """Times what the log lacks; each network adds its rows as it ends."""
  for name in names:
    if name in {row['network'] for row in run_logs.read(log, FIELDS)}:
      continue
    make = functools.partial(network_of, name, folder)
    arms = ARMS
    if name in GRID:
      make, arms = functools.partial(dense, *GRID[name]), ARMS[:1]
    rows = rows_of(name, seconds_of(make(), ('adamw', *arms), rounds))
    run_logs.append(log, FIELDS, rows)
    for row in rows:
      print(*row, flush=True)


def _cell(row: Mapping[str, str]) -> str:
  low, middle, high = (
    f'{float(row[name]):.2f}' for name in ('low', 'middle', 'high')
  )
  return f'{middle} ({low} to {high})'


def grid_table(rows: Sequence[Mapping[str, str]]) -> str:
  """The ratio to AdamW's step: a row for each width, a column for each batch.

  Returns:
    Markdown; before each ratio are AdamW's milliseconds. What the log lacks is
    empty.
  """
  of_name = {row['network']: row for row in rows}
  heads = [f'batch {batch}' for batch in BATCHES]
  lines = [f'| width | {" | ".join(heads)} |', f'|---|{"---|" * len(heads)}']
  for width in WIDTHS:
    cases = [of_name.get(f'dense_{width}_{batch}') for batch in BATCHES]
    cells = [
      f'{float(row["adamw_ms"]):.2f} ms, {_cell(row)}' if row else ''
      for row in cases
    ]
    lines.append(f'| {width} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def network_table(rows: Sequence[Mapping[str, str]]) -> str:
  """The ratios to AdamW's step on `NETWORKS`, in Markdown."""
  lines = [
    '| network | AdamW, ms | `schedule_free_muon` | Schedule-Free AdamW '
    "| optax's Muon |",
    '|---|---|---|---|---|',
  ]
  for name in NETWORKS:
    of_arm = {row['arm']: row for row in rows if row['network'] == name}
    if of_arm:
      base = float(of_arm['ours']['adamw_ms'])
      cells = [f'{base:.2f}', *(_cell(of_arm[arm]) for arm in ARMS)]
      lines.append(f'| {name} | {" | ".join(cells)} |')
  return '\n'.join(lines)

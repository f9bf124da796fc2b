"""The cost and accuracy of the bound's curve at 100,000 steps.

  .venv/bin/python benchmarks/bound_curve.py [--out=FILE]

For smooth schedules and for those that are numerically hard (sums over
differences of cumulative rates), it measures the seconds of a call (median and
range), its peak memory, the largest relative error at random steps against the
direct sum, and how long the direct sum would take for the whole curve.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import pathlib
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Union

import numpy as np

from reset_cycles.mini_algoperf import files
from reset_cycles.studies.preview.convergence_bound import (
  bound_curve,
  last_iterate_bound,
)

STEPS = 100_000
REPEATS = 5
CHECKED = 200  # steps at which the direct sum is taken, the last among them

# A row of figures: each a number, or [smallest, largest].
Figures = dict[str, Union[float, list[float]]]


def cosine_cycles(cycles: int) -> np.ndarray:
  """Rates from 1 to nearly 0 in cycles of the same length."""
  length = STEPS // cycles
  return (1 + np.cos(np.pi * (np.arange(STEPS) % length) / length)) / 2


def schedules(rng: np.random.Generator) -> dict[str, np.ndarray]:
  """The learning rates of each schedule, shape=(STEPS,), by name."""
  t = np.arange(1, STEPS + 1)
  cooldown = np.minimum(1.0, (STEPS + 1 - t) / (0.2 * STEPS))
  return {
    'constant': np.ones(STEPS),
    'cosine': cosine_cycles(1),
    'constant, then linear (WSD)': cooldown,
    'square root': 1 / np.sqrt(t),
    'linear': 1 - (t - 1) / STEPS,
    '10 cycles': cosine_cycles(10),
    '1,000 cycles': cosine_cycles(1000),
    '10 cycles, half of the rates 0': cosine_cycles(10) * (t % 2),
    'random over 20 decades': 10 ** rng.uniform(-20, 0, STEPS),
    'random over 140 decades': 10 ** rng.uniform(-140, 0, STEPS),
    'falling by 140 decades': np.geomspace(1, 1e-140, STEPS),
  }


def seconds(fn: Callable[[np.ndarray], object], rates: np.ndarray) -> float:
  """Wall time of a call, seconds."""
  start = time.perf_counter()
  fn(rates)
  return time.perf_counter() - start


def peak_bytes(fn: Callable[[np.ndarray], object], rates: np.ndarray) -> int:
  """The most bytes that a call has allocated at once, with NumPy's arrays."""
  tracemalloc.start()
  try:
    fn(rates)
    return tracemalloc.get_traced_memory()[1]
  finally:
    tracemalloc.stop()


def checked_steps(rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Random steps with a rate above 0, and the last of them."""
  steps = np.flatnonzero(rates) + 1
  return np.append(rng.choice(steps, CHECKED - 1), steps[-1])


def measure(rates: np.ndarray, rng: np.random.Generator) -> Figures:
  """Time, memory and error of one schedule's curve."""
  times = [seconds(bound_curve, rates) for _ in range(REPEATS)]
  curve, steps = bound_curve(rates), checked_steps(rates, rng)
  start = time.perf_counter()
  direct = np.array([last_iterate_bound(rates[:t]) for t in steps])
  per_step = (time.perf_counter() - start) / CHECKED
  return {
    'seconds': statistics.median(times),
    'fastest and slowest': [min(times), max(times)],
    'peak, MB': peak_bytes(bound_curve, rates) / 1e6,
    'error': float(np.max(np.abs(curve[steps - 1] / direct - 1))),
    'seconds of the direct sum, estimated': per_step * STEPS,
  }


def versions() -> dict[str, str]:
  """Date, machine and versions, to save with the figures."""
  return {
    'date': dt.date.today().isoformat(),
    'machine': f'{platform.machine()}, {os.cpu_count()} processor(s)',
    'python': platform.python_version(),
    'numpy': np.__version__,
  }


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  out = parser.parse_args().out
  rng = np.random.default_rng(0)
  figures = {}
  for name, rates in schedules(rng).items():
    row = figures[name] = measure(rates, rng)
    low, high = row['fastest and slowest']
    print(
      f'{name:30} {row["seconds"]:5.2f} s ({low:.2f} to {high:.2f})  '
      f'{row["peak, MB"]:5.1f} MB  error {row["error"]:.1e}  '
      f'directly {row["seconds of the direct sum, estimated"]:.0f} s'
    )
  if out is not None:
    table = {'versions': versions(), 'steps': STEPS, 'figures': figures}
    files.write_whole(out, json.dumps(table, indent=2) + '\n')


if __name__ == '__main__':
  main()

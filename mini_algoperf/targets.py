"""Target setting: what tuned AdamW reaches in three quarters of the steps.

The benchmark's method in small: search AdamW's hyperparameters, train the best
point again with fresh seeds, take the median of the final metrics. AdamW has a
linear warm-up and a cosine decay over 0.75 of the workload's step hint; the
search space is the benchmark's for AdamW, at fixed beta2, warm-up, dropout and
no label smoothing. The benchmark takes 200 trials and, for the test split, the
worst of the runs that reached the validation target; here it is the median on
both splits.

  soft-reset set-targets --workload=digits
"""

from __future__ import annotations

import pathlib
import platform
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

from . import files
from .target_training import BETA2, WARMUP_SHARE, Point, Result, Trainer
from .workloads import MiniWorkload, get_workload
from .workloads.base import TARGETS_FILE

_STEP_SHARE = 0.75
NUM_TRIALS, NUM_SEEDS = 20, 20
# Takes the place of NaN; finite, so that quantiles next to it are exact.
_WORST = 1e300
# Lowest and highest value of the fields of `Point`, searched on a log scale.
SEARCH_SPACE = {
  'learning_rate': (1e-4, 1e-2),
  'one_minus_beta1': (2e-2, 0.5),
  'weight_decay': (5e-3, 1.0),
}
# The trials' common seed; the repeated runs take those after it.
_TRIAL_SEED = 0
_LIBRARIES = ('flax', 'jax', 'jaxlib', 'numpy', 'optax')
# What a workload imports is installed under another name.
_DISTRIBUTIONS = {'sklearn': 'scikit-learn'}


def search_points(num_trials: int) -> list[Point]:
  """Quasi-random points of the search space, the same ones every time.

  Args:
    num_trials: how many.

  Returns:
    Points of the unscrambled Halton sequence, log-scaled to the space.
  """
  halton = qmc.Halton(d=len(SEARCH_SPACE), scramble=False)
  halton.fast_forward(1)  # Its first point is the space's lower corner.
  low, high = np.log(list(SEARCH_SPACE.values())).T
  unit = halton.random(num_trials)
  return [Point(*map(float, row)) for row in np.exp(low + unit * (high - low))]


class Search(NamedTuple):
  """A search for a workload's targets; see `plan_search`."""

  workload: MiniWorkload
  num_trials: int
  num_seeds: int
  num_steps: int
  data_dir: str | None
  output: pathlib.Path
  command: str


def plan_search(
  workload_name: str,
  num_trials: int = NUM_TRIALS,
  num_seeds: int = NUM_SEEDS,
  num_steps: int | None = None,
  data_dir: str | None = None,
  output: pathlib.Path | None = None,
) -> Search:
  """Checks everything that a search needs, before hours of training.

  Args:
    workload_name: a workload's name, or file.py:ClassName.
    num_trials: points of the search.
    num_seeds: repetitions of the best point.
    num_steps: steps of a run; None is 0.75 of the workload's step hint.
    data_dir: where the data lie; None for the default.
    output: JSON file whose entry of this workload is replaced; None is the
      file that the workload reads, for which no number may be reduced unless
      it is a user's.

  Raises:
    ValueError: an unknown workload, a number that is too small, or an output
      that cannot be used.
  """
  workload = get_workload(workload_name)
  full_steps = int(_STEP_SHARE * workload.step_hint)
  steps = full_steps if num_steps is None else num_steps
  _check_at_least(1, num_trials=num_trials, num_seeds=num_seeds)
  _check_at_least(2, num_steps=steps)
  if output is None and workload.targets_file == TARGETS_FILE:
    full = {'num_trials': NUM_TRIALS, 'num_seeds': NUM_SEEDS}
    given = {'num_trials': num_trials, 'num_seeds': num_seeds}
    if given != full or steps != full_steps:
      raise ValueError(
        f'--output is missing: only {NUM_TRIALS} trials, {NUM_SEEDS} seeds and '
        f'{full_steps} steps set the targets that the workload reads.'
      )
  path = workload.targets_file if output is None else output
  _read_entries(path)
  if not path.parent.is_dir():
    raise ValueError(f'--output={path}: there is no folder {path.parent}.')
  numbers = f'--num_trials={num_trials} --num_seeds={num_seeds}'
  command = (
    f'soft-reset set-targets --workload={workload_name} {numbers} '
    f'--num_steps={steps}'
  )
  return Search(workload, num_trials, num_seeds, steps, data_dir, path, command)


def set_targets(search: Search, progress: bool = True) -> dict[str, Any]:
  """Tunes AdamW, repeats the best point, writes the medians as targets.

  Args:
    search: from `plan_search`.
    progress: whether to draw a progress bar.

  Returns:
    The entry that was written.

  Raises:
    ValueError: if no trial, or not most of the repeated runs, ended with a
      number.
  """
  workload, steps = search.workload, search.num_steps
  train = Trainer(workload, steps, search.data_dir)
  with tqdm(
    total=(search.num_trials + search.num_seeds) * steps,
    unit='step',
    disable=not progress,
  ) as bar:
    trials = _search(workload, train, search_points(search.num_trials), bar)
    best = _best_point(workload, trials)
    seeds = range(_TRIAL_SEED + 1, _TRIAL_SEED + 1 + search.num_seeds)
    results = _repeat(train, best, seeds, bar)
  entry = _entry(search, trials, best, seeds, results)
  entries = {**_read_entries(search.output), workload.name: entry}
  files.write_json(search.output, {'workloads': dict(sorted(entries.items()))})
  return entry


def _read_entries(path: pathlib.Path) -> dict[str, Any]:
  """The entries of a file of targets; none if there is no file."""
  if not path.exists():
    return {}
  content = files.read_json(path)
  if not isinstance(content, dict) or 'workloads' not in content:
    raise ValueError(f'--output={path}: is not a file of targets.')
  return content['workloads']


def _check_at_least(smallest: int, **values: int) -> None:
  for name, value in values.items():
    if value < smallest:
      raise ValueError(f'{name}: {value} is too small; use {smallest} or more')


def _search(
  workload: MiniWorkload, train: Trainer, points: list[Point], bar: tqdm
) -> list[tuple[Point, Result]]:
  trials = []
  for number, point in enumerate(points, start=1):
    bar.set_description(f'trial {number}/{len(points)}')
    trials.append((point, train(point, _TRIAL_SEED, bar)))
    best = _best_value(workload, [result for _, result in trials])
    bar.set_postfix_str(f'best {workload.target_metric_name} {best:.4f}')
  return trials


def _repeat(
  train: Trainer, point: Point, seeds: range, bar: tqdm
) -> list[Result]:
  results = []
  for number, seed in enumerate(seeds, start=1):
    bar.set_description(f'seed {number}/{len(seeds)}')
    results.append(train(point, seed, bar))
    median = np.median([result.validation for result in results])
    bar.set_postfix_str(f'median {median:.4f}')
  return results


def _best_value(workload: MiniWorkload, results: list[Result]) -> float:
  values = [result.validation for result in results]
  if np.isnan(values).all():
    return float('nan')
  return float((np.nanmax if workload.metric_rises else np.nanmin)(values))


def _best_point(
  workload: MiniWorkload, trials: list[tuple[Point, Result]]
) -> Point:
  best = _best_value(workload, [result for _, result in trials])
  for point, result in trials:
    if result.validation == best:
      return point
  raise ValueError(
    f'num_trials: none of the {len(trials)} ended with a finite metric; use more'
  )


def _with_worst(workload: MiniWorkload, values: list[float]) -> np.ndarray:
  """The values; a run that ended without a number counts as the worst."""
  worst = -_WORST if workload.metric_rises else _WORST
  return np.where(np.isnan(values), worst, values)


def _spread(values: np.ndarray) -> dict[str, float | None]:
  names = ('min', 'lower_quartile', 'median', 'upper_quartile', 'max')
  quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
  return dict(zip(names, map(_number_or_none, quantiles.tolist())))


def _entry(
  search: Search,
  trials: list[tuple[Point, Result]],
  best: Point,
  seeds: range,
  results: list[Result],
) -> dict[str, Any]:
  workload = search.workload
  validation = _with_worst(workload, [result.validation for result in results])
  test = _with_worst(workload, [result.test for result in results])
  return {
    'metric': workload.target_metric_name,
    'validation_target': _median('validation', validation),
    'test_target': _median('test', test),
    'validation_spread': _spread(validation),
    'test_spread': _spread(test),
    'hyperparameters': {**best._asdict(), 'beta2': BETA2},
    'warmup_share': WARMUP_SHARE,
    'num_steps': search.num_steps,
    'step_hint': workload.step_hint,
    'batch_size': workload.default_batch_size,
    'seeds': [
      {'seed': seed, **{k: _number_or_none(v) for k, v in r._asdict().items()}}
      for seed, r in zip(seeds, results)
    ],
    'trials': [
      {**point._asdict(), 'validation': _number_or_none(result.validation)}
      for point, result in trials
    ],
    'versions': {
      'python': platform.python_version(),
      **_versions(workload),
    },
    'command': search.command,
  }


def _versions(workload: MiniWorkload) -> dict[str, str]:
  own = [_DISTRIBUTIONS.get(name, name) for name in workload.packages]
  return {name: metadata.version(name) for name in sorted([*_LIBRARIES, *own])}


def _median(split: str, values: np.ndarray) -> float:
  median = _number_or_none(np.median(values))
  if median is None:
    raise ValueError(
      f'{split}: half of the runs ended without a finite metric.'
    )
  return median


def _number_or_none(value: float) -> float | None:
  """None for a run that ended without one."""
  return float(value) if abs(value) < _WORST / 100 else None

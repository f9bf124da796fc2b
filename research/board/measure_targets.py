"""Targets of the shortened workloads, by a small version of AlgoPerf's method.

AdamW with a warm-up and one cosine, and the other hyperparameters that
`reset-cycles set-targets` found for the workload, is trained over 30 %, 75 %
and 100 % of step_hint. The best of a grid of peak rates is chosen by the median
over seeds; with it, the median over more seeds is the target.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax
import numpy as np

from ...mini_algoperf import files
from ...mini_algoperf.targets import Point, Trainer, best_point, median
from ...mini_algoperf.workloads.base import read_targets as own_targets
from . import stand_in
from .conditions import CONDITIONS

# The share of step_hint that is trained, by target.
SHARES = {'slow': 0.3, 'tuned': 0.75, 'near': 1.0}
BEYOND = 0.02  # how far the target `near` is beyond what was reached, relative
PEAKS = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
_GRID_SEEDS, _SEEDS = (201, 202), (203, 204, 205, 206, 207)
_PLAIN = (0.1, 0.05)  # one_minus_beta1 and weight_decay if none were found


def measure(name: str, full: bool = False) -> dict[str, Any]:
  """Measures the targets of a workload.

  Returns:
    The targets 'tuned', 'near' and 'slow', the metric's name, and the runs.
  """
  workload = stand_in.make_workload(
    name, CONDITIONS['tuned']._replace(full=full), {'tuned': 0.0}
  )
  metric, rises = workload.target_metric_name, workload.metric_rises
  key = jax.random.PRNGKey(0)
  own = own_targets().get(name, {}).get('hyperparameters')
  rest = (own['one_minus_beta1'], own['weight_decay']) if own else _PLAIN
  found: dict[str, Any] = {'metric': metric, 'runs': {}}
  whole = Trainer(workload, workload.step_hint, None)
  for target, share in SHARES.items():
    steps = int(share * workload.step_hint)
    trainer = whole.of_length(steps)

    def end(
      point: Point, seed: int, trainer: Trainer = trainer, steps: int = steps
    ) -> float:
      """The final metric."""
      params, state, *_ = trainer.train(point, seed)
      result = workload.eval_model(
        workload.eval_batch_size, params, state, key, None, None, steps
      )
      return result[f'validation/{metric}']

    trials = []
    for point in [Point(peak, *rest) for peak in PEAKS]:
      # NaN if a seed diverges: such a peak is not chosen.
      middle = float(np.median([end(point, s) for s in _GRID_SEEDS]))
      trials.append((point, {'validation': middle}))
      print(f'{name}, {steps} steps, peak {point.learning_rate}: {middle:.4f}')
    best = best_point(workload, trials)
    peak, values = best.learning_rate, [end(best, seed) for seed in _SEEDS]
    beyond = BEYOND if target == 'near' else 0.0
    sign = 1.0 if rises else -1.0
    found[target] = median(workload, values) * (1.0 + sign * beyond)
    found['runs'][target] = {'steps': steps, 'peak': peak, 'values': values}
  return found


def check_unset(name: str, full: bool, overwrite: bool) -> None:
  """Raises ValueError if a workload has targets that must not be replaced."""
  key = stand_in.target_key(name, full)
  if key in stand_in.read_targets(name) and not overwrite:
    raise ValueError(
      f'{stand_in.targets_file(name)} has targets of {key} already: '
      '--overwrite replaces them.'
    )


def set_targets(name: str, full: bool) -> pathlib.Path:
  """Writes what `measure` finds to the file that the workloads read."""
  found, file = measure(name, full), stand_in.targets_file(name)
  targets = stand_in.read_targets(name)
  targets[stand_in.target_key(name, full)] = found
  text = json.dumps(targets, indent=2, sort_keys=True) + '\n'
  files.write_whole(file, text)
  return file

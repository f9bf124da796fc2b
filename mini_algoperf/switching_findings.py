"""What seeds say to the claims on early switching.

The runs were trained with switching off, so that the end of each cycle is known;
the rule is replayed on their validation losses.
"""

from __future__ import annotations

import numpy as np

from .. import early_switching
from ..experiments.settings import RUNS
from ..schedule_params import ScheduleParams
from . import recovery
from .findings import (
  FAILED,
  GOOD,
  Finding,
  Measure,
  Study,
  common_seeds,
  measures,
)
from .run_table import RunTable

# Cycles that were made to fail or not, with the runs' switching off, so that
# their end is known: (run, index of the cycle).
_CYCLES = (
  *((run, i) for run in ('peaks_full', 'peaks_soft') for i in range(3)),
  *(('failing_full', i) for i in range(3)),
  ('failed_start_cyclic', 0),
)
RUNS_REPLAYED = tuple(dict.fromkeys(run for run, _ in _CYCLES))
RULE = RUNS['failing_switching']


def switching_evaluation(
  table: RunTable, cycle: int, params: ScheduleParams
) -> int | None:
  """The evaluation of a cycle, from 1, at which S(t) = 1 for the first time.

  Args:
    table: a run whose switching was off.
    cycle: index of the cycle, from 0.
    params: has the constants of the rule.

  Returns:
    The number of the evaluation; None if the rule lets the cycle be.
  """
  starts = np.array(table.cycle_starts)
  of_cycle = np.searchsorted(starts, table.losses.steps, side='left') - 1
  smoothed = early_switching.NO_LOSS_YET
  for t, loss in enumerate(table.losses.loss[of_cycle == cycle], start=1):
    smoothed = early_switching.smooth_loss(smoothed, loss, params.switch_lam)
    if early_switching.is_stopping_early(smoothed, params).stopping:
      return t
  return None


def _switching(study: Study, seed: int, failed: bool) -> list[tuple]:
  """(evaluation of the best metric, that of S(t) = 1 or None) of each cycle."""
  result = []
  for run, cycle in _CYCLES:
    table = study[run][seed]
    share = recovery.shares(table)[cycle]
    if share[-1] < FAILED if failed else share[-1] >= GOOD:
      best = int(np.argmax(share)) + 1
      result.append((best, switching_evaluation(table, cycle, RULE)))
  return result


def failed_cycles_are_left(study: Study) -> Finding:
  """Whether S(t) fires in the cycles that fail, and when."""
  rows, delays, votes = [], [], []
  for seed in common_seeds(study, RUNS_REPLAYED):
    cycles = _switching(study, seed, failed=True)
    left = [(best, at) for best, at in cycles if at is not None]
    rows.append((len(cycles), len(left)))
    delays += [at - best for best, at in left]
    votes.append((2 * (len(left) == len(cycles)) - 1) if cycles else 0)
  found = measures(['failed cycles per seed', 'left by the rule'], rows)
  delay = Measure('evaluations from the best metric to the switch', delays)
  return Finding([*found, delay], votes)


def healthy_cycles_are_let_be(study: Study) -> Finding:
  """How often S(t) fires in a cycle that ends well."""
  rows, votes = [], []
  for seed in common_seeds(study, RUNS_REPLAYED):
    cycles = _switching(study, seed, failed=False)
    left = [at for _, at in cycles if at is not None]
    rows.append((len(cycles), len(left)))
    votes.append((1 if not left else -1) if cycles else 0)
  return Finding(
    measures(['good cycles per seed', 'left by the rule'], rows), votes
  )

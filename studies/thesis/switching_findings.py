"""What seeds say to the claims on early switching.

The runs were trained with switching off, so that the end of each cycle is known;
the rule is replayed on their validation losses.
"""

from __future__ import annotations

import numpy as np

from ... import early_switching
from ...control.switching import SWITCHING_RULES
from ...control.switching.thesis import Thesis
from ...experiments.settings import RUNS
from ..runs.table import RunTable
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

# Cycles that were made to fail or not, with the runs' switching off, so that
# their end is known: (run, index of the cycle).
# The first cycle of all runs with three is the same.
_CYCLES = (
  ('peaks_full', 0),
  *(
    (run, i)
    for run in ('peaks_full', 'peaks_soft', 'failing_full')
    for i in (1, 2)
  ),
  ('failed_start_cyclic', 0),
)
RUNS_REPLAYED = tuple(dict.fromkeys(run for run, _ in _CYCLES))
RULE: Thesis = SWITCHING_RULES.make(RUNS['failing_switching'].switching)


def switching_evaluation(
  table: RunTable, cycle: int, rule: Thesis
) -> int | None:
  """The evaluation of a cycle, from 1, at which the rule ends it.

  Args:
    table: a run whose switching was off.
    cycle: index of the cycle, from 0.
    rule: the thesis' with its constants.

  Returns:
    The number of the evaluation with the first S(t) = 1; None if there is none
    before the cycle's end, at which it is over anyway.
  """
  steps = table.losses.steps
  start, end = table.cycle_starts[cycle], table.cycle_ends[cycle]
  smoothed = early_switching.NO_LOSS_YET
  losses = table.losses.loss[(steps > start) & (steps < end)]
  for t, loss in enumerate(losses, start=1):
    smoothed = early_switching.smooth_loss(smoothed, loss, rule.lam)
    verdict = early_switching.is_stopping_early(
      smoothed, rule.eps1, rule.eps2, rule.k, rule.m
    )
    if verdict.stopping:
      return t
  return None


def _switching(
  study: Study, seed: int, failed: bool
) -> list[tuple[int | None, int]]:
  """(evaluation of the switch or None, best one up to it) of each cycle."""
  result = []
  for run, cycle in _CYCLES:
    table = study[run][seed]
    share = recovery.shares(table)[cycle]
    if share[-1] < FAILED if failed else share[-1] >= GOOD:
      at = switching_evaluation(table, cycle, RULE)
      result.append((at, int(np.argmax(share[:at])) + 1))
  return result


def failed_cycles_are_left(study: Study) -> Finding:
  """Whether S(t) fires in the cycles that fail, and when."""
  rows, delays, votes = [], [], []
  for seed in common_seeds(study, RUNS_REPLAYED):
    cycles = _switching(study, seed, failed=True)
    left = [(at, best) for at, best in cycles if at is not None]
    rows.append((len(cycles), len(left)))
    delays += [at - best for at, best in left]
    votes.append((2 * (len(left) == len(cycles)) - 1) if cycles else 0)
  found = measures(['failed cycles per seed', 'left by the rule'], rows)
  delay = Measure('evaluations from the best metric to the switch', delays)
  return Finding([*found, delay], votes)


def healthy_cycles_are_let_be(study: Study) -> Finding:
  """How often S(t) fires in a cycle that ends well."""
  rows, votes = [], []
  for seed in common_seeds(study, RUNS_REPLAYED):
    cycles = _switching(study, seed, failed=False)
    left = [at for at, _ in cycles if at is not None]
    rows.append((len(cycles), len(left)))
    votes.append((1 if not left else -1) if cycles else 0)
  return Finding(
    measures(['good cycles per seed', 'left by the rule'], rows), votes
  )

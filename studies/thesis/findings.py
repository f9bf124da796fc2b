"""What seeds say to a claim on recoveries: measured quantities and votes.

A cycle has failed if it ends within a tenth of the way from the untrained model
to the target, and is good if it has gone half of it. Whatever a seed is to be
asked about, a good cycle or a failed one, has to be there; a seed without it
votes neither for the claim nor against it. The verdict is that of the two-sided
sign test over the votes at 5 %: nine of ten seeds, or all of six, carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ...experiments.settings import RUNS
from ..runs.table import RunTable
from . import recovery

FAILED, GOOD = 0.1, 0.5
# Shares of the way that count as no difference where a claim says "no worse".
MARGIN = 0.01
_SIGNIFICANT = 0.05

Seeds = Mapping[int, RunTable]
Study = Mapping[str, Seeds]  # run -> seed -> table, all on one workload


class Measure(NamedTuple):
  """One measured quantity; a value per seed that has it."""

  name: str
  values: Sequence[float]


class Finding(NamedTuple):
  """What a workload's seeds say to a claim."""

  measures: Sequence[Measure]
  votes: Sequence[int]  # a seed each: 1 for, -1 against, 0 neither

  @property
  def verdict(self) -> str:
    """'holds', 'does not hold' or 'undecided'."""
    votes = np.asarray(self.votes)
    num_for, num_against = int((votes > 0).sum()), int((votes < 0).sum())
    count = num_for + num_against
    if not count or stats.binomtest(num_for, count).pvalue >= _SIGNIFICANT:
      return 'undecided'
    return 'holds' if num_for > num_against else 'does not hold'


def common_seeds(study: Study, runs: Sequence[str]) -> list[int]:
  """The seeds with which all of some runs were trained, in order."""
  return sorted(set.intersection(*(set(study[run]) for run in runs)))


def good_resets(tables: Sequence[RunTable]) -> list[int]:
  """The boundaries that follow upon a good cycle in each of some runs."""
  count = min(len(table.cycle_starts) for table in tables) - 1
  return [
    reset
    for reset in range(count)
    if all(recovery.final_share(table, reset) >= GOOD for table in tables)
  ]


def _mean_recovery(table: RunTable, resets: Sequence[int]) -> float:
  """A recovery that doesn't come in its cycle counts as the cycle and one."""
  lengths = [len(y) for y in recovery.cycle_metrics(table)]
  counts = [
    min(recovery.recovery(table, reset), lengths[reset + 1] + 1.0)
    for reset in resets
  ]
  return float(np.mean(counts))


def _compare_recovery(study: Study, faster: str, slower: str) -> Finding:
  """Votes for a run that recovers in fewer evaluations than another.

  The cyclic run is measured beside them: what it needs is the learning rate's.
  """
  names = tuple(dict.fromkeys((slower, faster, 'peaks_cyclic')))
  asked, votes = [], []
  for seed in common_seeds(study, names):
    tables = {name: study[name][seed] for name in names}
    resets = good_resets(list(tables.values()))
    if not resets:
      votes.append(0)
      continue
    asked.append((tables, resets))
    votes.append(
      _vote(
        _mean_recovery(tables[slower], resets),
        _mean_recovery(tables[faster], resets),
      )
    )
  return Finding(
    [
      *_by_reset('evaluations to recover', recovery.recovery, names, asked),
      *_by_reset('share of the way lost', recovery.loss_at_reset, names, asked),
    ],
    votes,
  )


def _by_reset(
  title: str,
  measure: Callable[[RunTable, int], float],
  names: Sequence[str],
  asked: Sequence[tuple[Mapping[str, RunTable], Sequence[int]]],
) -> list[Measure]:
  """A measure of each run after each of its cycles, over the seeds asked."""
  resets = sorted({reset for _, resets in asked for reset in resets})
  return [
    Measure(
      f'{title} after cycle {reset + 1}, {_label(name)}',
      [measure(tables[name], reset) for tables, r in asked if reset in r],
    )
    for reset in resets
    for name in names
  ]


def _vote(larger: float, smaller: float) -> int:
  """1 if the first is larger, -1 if the second is, 0 if they are equal."""
  return (larger > smaller) - (larger < smaller)


def measures(
  columns: Sequence[str], rows: Sequence[Sequence[float]]
) -> list[Measure]:
  """Measures from their names and a row of values per seed."""
  values = zip(*rows) if rows else [()] * len(columns)
  return [Measure(name, list(v)) for name, v in zip(columns, values)]


def _label(run: str) -> str:
  params = RUNS[run]
  if params.reset_mode == 'soft' and params.alpha == 0.0:
    return 'soft, parameters alone'
  return params.reset_mode.replace('_', ' ')


def full_recovers_slowly(study: Study) -> Finding:
  """Full resets against what the learning rate alone costs."""
  return _compare_recovery(study, 'peaks_cyclic', 'peaks_full')


def kept_momentum_is_faster(study: Study) -> Finding:
  """Resets that keep the moments against full ones."""
  return _compare_recovery(study, 'peaks_kept', 'peaks_full')


def soft_is_faster(study: Study) -> Finding:
  """Soft resets against full ones, after good cycles."""
  return _compare_recovery(study, 'peaks_soft', 'peaks_full')


def _no_worse(study: Study, run: str, other: str) -> Finding:
  """Votes for a run whose later cycles' best is no worse than another's."""
  rows, votes = [], []
  for seed in common_seeds(study, (run, other)):
    pair = [study[name][seed] for name in (run, other)]
    if recovery.final_share(pair[0], 0) < GOOD:
      votes.append(0)
      continue
    best = [recovery.best_share(table, 1) for table in pair]
    rows.append((*best, best[0] - best[1]))
    votes.append(1 if best[0] >= best[1] - MARGIN else -1)
  columns = [f'best share of the way, {_label(name)}' for name in (run, other)]
  return Finding(measures([*columns, 'difference'], rows), votes)


def later_cycles_are_no_worse(study: Study) -> Finding:
  """The best metric after the first cycle, soft against full."""
  return _no_worse(study, 'peaks_soft', 'peaks_full')


def soft_is_no_worse_than_cyclic(study: Study) -> Finding:
  """The same, soft against no reset at all."""
  return _no_worse(study, 'peaks_soft', 'peaks_cyclic')


def only_soft_leaves_a_failure(study: Study) -> Finding:
  """What becomes of a run whose first cycle has failed."""
  names = ('failed_start_cyclic', 'failed_start_soft')
  first, rows, votes = [], [], []
  for seed in common_seeds(study, names):
    cyclic, soft = (study[name][seed] for name in names)
    first.append(recovery.final_share(cyclic, 0))
    if first[-1] >= FAILED:
      votes.append(0)
      continue
    best = [recovery.best_share(table, 1) for table in (cyclic, soft)]
    rows.append(best)
    votes.append(1 if best[0] < GOOD <= best[1] else -1)
  gone = Measure('share of the way gone by the first cycle', first)
  columns = [f'best share after a failure, {_label(name)}' for name in names]
  return Finding([gone, *measures(columns, rows)], votes)


def parameters_matter_more(study: Study) -> Finding:
  """The parameters' and the moments' part in what a full reset costs.

  From a full reset to none in two steps: keep the moments, then the parameters.
  """
  names = ('peaks_full', 'peaks_kept', 'peaks_cyclic')
  rows, votes = [], []
  for seed in common_seeds(study, names):
    tables = [study[name][seed] for name in names]
    resets = good_resets(tables)
    if not resets:
      votes.append(0)
      continue
    full, kept, cyclic = (_mean_recovery(table, resets) for table in tables)
    rows.append((kept - cyclic, full - kept))
    votes.append(_vote(abs(kept - cyclic), abs(full - kept)))
  columns = ["parameters' part, evaluations", "moments' part, evaluations"]
  return Finding(measures(columns, rows), votes)


def parameters_matter_more_after_a_failure(study: Study) -> Finding:
  """The two parts in what a soft reset brings after a failed first cycle."""
  names = ('failed_start_cyclic', 'failed_start_params', 'failed_start_soft')
  rows, votes = [], []
  for seed in common_seeds(study, names):
    tables = [study[name][seed] for name in names]
    if recovery.final_share(tables[0], 0) >= FAILED:
      votes.append(0)
      continue
    cyclic, params, soft = (recovery.best_share(t, 1) for t in tables)
    rows.append((params - cyclic, soft - params))
    votes.append(_vote(abs(params - cyclic), abs(soft - params)))
  columns = [
    "parameters' part, share of the way",
    "moments' part, share of the way",
  ]
  return Finding(measures(columns, rows), votes)

"""The claims of the thesis, and what seeds say to them: quantities and votes.

The way of a run leads from the untrained model, y_0, its first evaluation, to
the target; the share that a value y has gone of it is (y - y_0) / (target -
y_0), for metrics that rise and for those that fall. An evaluation at the last
step of a cycle belongs to that cycle.

A cycle has failed if it ends within a tenth of the way from the untrained model
to the target, and is good if it has gone half of it. Whatever a seed is to be
asked about, a good cycle or a failed one, has to be there; a seed without it
votes neither for the claim nor against it. The verdict is that of the two-sided
sign test over the votes at 5 %: nine of ten seeds, or all of six, carry it.

Early switching is judged on runs that were trained with switching off, so that
the end of each cycle is known; the rule is replayed on their losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ..run_files import RunTable
from . import registry

REGAINED = 0.95


def share_gone(value: np.ndarray, start: float, goal: float) -> np.ndarray:
  """(value - start) / (goal - start); 0 where the value is not finite.

  Args:
    value: shape (n,) or a scalar, metrics.
    start: the untrained model's metric.
    goal: where the way leads to, which is not where it starts.
  """
  share = (np.asarray(value, float) - start) / (goal - start)
  return np.where(np.isfinite(share), share, 0.0)


def cycle_metrics(table: RunTable) -> list[np.ndarray]:
  """The metric at the evaluations of each cycle, a vector per cycle."""
  starts = np.array(table.cycle_starts)
  # Cycle i has the evaluations after its first step's start, up to its end.
  cycle = np.searchsorted(starts, table.eval_steps, side='left') - 1
  return [table.metric[cycle == i] for i in range(len(starts))]


def shares(table: RunTable) -> list[np.ndarray]:
  """`share_gone` towards the target at the evaluations of each cycle."""
  start = table.metric[0]
  return [
    share_gone(y, start, table.target.value) for y in cycle_metrics(table)
  ]


def final_share(table: RunTable, cycle: int) -> float:
  """The share of the way to the target gone at the end of a cycle.

  Args:
    table: the run.
    cycle: index of the cycle, from 0.
  """
  return float(shares(table)[cycle][-1])


def best_share(table: RunTable, first_cycle: int) -> float:
  """The largest share of the way that a cycle or a later one has gone.

  Args:
    table: the run.
    first_cycle: index of the first cycle that counts, from 0.
  """
  return float(np.concatenate(shares(table)[first_cycle:]).max())


def _since_reset(table: RunTable, reset: int) -> np.ndarray:
  """After a reset: shares of the way to what the model was before it."""
  before, after = cycle_metrics(table)[reset : reset + 2]
  return share_gone(after, table.metric[0], before[-1])


def loss_at_reset(table: RunTable, reset: int) -> float:
  """The share of the way that is lost at the first evaluation after a reset.

  Args:
    table: the run.
    reset: which boundary between cycles, from 0. Whether anything is reset
      there depends on the run: without, it is what the learning rate costs.
  """
  return float(1.0 - _since_reset(table, reset)[0])


def recovery(table: RunTable, reset: int) -> float:
  """Evaluations until 95 % of the way to the model before the reset is regained.

  The way is that from the untrained model to the last evaluation before the
  boundary. 1 is the first evaluation after it.

  Args:
    table: the run.
    reset: which boundary between cycles, from 0.

  Returns:
    A count; infinity if the cycle ends before.
  """
  regained = np.flatnonzero(_since_reset(table, reset) >= REGAINED)
  return float(regained[0] + 1) if regained.size else math.inf


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
    if all(final_share(table, reset) >= GOOD for table in tables)
  ]


def _mean_recovery(table: RunTable, resets: Sequence[int]) -> float:
  """A recovery that doesn't come in its cycle counts as the cycle and one."""
  lengths = [len(y) for y in cycle_metrics(table)]
  counts = [
    min(recovery(table, reset), lengths[reset + 1] + 1.0) for reset in resets
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
      *_by_reset('evaluations to recover', recovery, names, asked),
      *_by_reset('share of the way lost', loss_at_reset, names, asked),
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
      f'{title} after cycle {reset + 1}, {registry.reset_label(name)}',
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
    if final_share(pair[0], 0) < GOOD:
      votes.append(0)
      continue
    best = [best_share(table, 1) for table in pair]
    rows.append((*best, best[0] - best[1]))
    votes.append(1 if best[0] >= best[1] - MARGIN else -1)
  columns = [
    f'best share of the way, {registry.reset_label(name)}'
    for name in (run, other)
  ]
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
    first.append(final_share(cyclic, 0))
    if first[-1] >= FAILED:
      votes.append(0)
      continue
    best = [best_share(table, 1) for table in (cyclic, soft)]
    rows.append(best)
    votes.append(1 if best[0] < GOOD <= best[1] else -1)
  gone = Measure('share of the way gone by the first cycle', first)
  columns = [
    f'best share after a failure, {registry.reset_label(name)}'
    for name in names
  ]
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
    if final_share(tables[0], 0) >= FAILED:
      votes.append(0)
      continue
    cyclic, params, soft = (best_share(t, 1) for t in tables)
    rows.append((params - cyclic, soft - params))
    votes.append(_vote(abs(params - cyclic), abs(soft - params)))
  columns = [
    "parameters' part, share of the way",
    "moments' part, share of the way",
  ]
  return Finding(measures(columns, rows), votes)


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


def switching_evaluation(table: RunTable, cycle: int) -> int | None:
  """The evaluation of a cycle, from 1, at which the rule ends it.

  Args:
    table: a run whose switching was off.
    cycle: index of the cycle, from 0.

  Returns:
    The number of the evaluation with the first S(t) = 1; None if there is none
    before the cycle's end, at which it is over anyway.
  """
  steps = table.losses.steps
  start, end = table.cycle_starts[cycle], table.cycle_ends[cycle]
  return registry.first_switch(
    table.losses.loss[(steps > start) & (steps < end)]
  )


def _switching(
  study: Study, seed: int, failed: bool
) -> list[tuple[int | None, int]]:
  """(evaluation of the switch or None, best one up to it) of each cycle."""
  result = []
  for run, cycle in _CYCLES:
    table = study[run][seed]
    share = shares(table)[cycle]
    if share[-1] < FAILED if failed else share[-1] >= GOOD:
      at = switching_evaluation(table, cycle)
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


class Claim(NamedTuple):
  """A sentence of the thesis and how it is put to the test."""

  sentence: str
  question: str  # what a seed is asked; yes counts for the claim
  runs: tuple[str, ...]  # keys of RUNS
  ask: Callable[[Study], Finding]


CLAIMS = (
  Claim(
    'Full resets forget and recover slowly.',
    'Does the full reset take more evaluations to recover than the learning '
    'rate alone costs (cyclic)?',
    ('peaks_full', 'peaks_cyclic'),
    full_recovers_slowly,
  ),
  Claim(
    'Keeping the momentum speeds up recovery in some cases.',
    'Does a reset of the parameters alone recover in fewer evaluations than a '
    'full one?',
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    kept_momentum_is_faster,
  ),
  Claim(
    'After a good cycle soft resets recover faster than full ones.',
    'Does the soft reset recover in fewer evaluations?',
    ('peaks_full', 'peaks_soft', 'peaks_cyclic'),
    soft_is_faster,
  ),
  Claim(
    'The best metric of later cycles is unchanged or better with soft resets.',
    f'Is it no worse than with full resets, by {100 * MARGIN:g} % of the way?',
    ('peaks_full', 'peaks_soft'),
    later_cycles_are_no_worse,
  ),
  Claim(
    'Cyclic training does not recover from a failed first cycle; soft resets '
    'do.',
    'After a failed first cycle: does the second get half of the way with a '
    'soft reset, and not without?',
    ('failed_start_cyclic', 'failed_start_soft'),
    only_soft_leaves_a_failure,
  ),
  Claim(
    'After good cycles soft resets are no worse than cyclic training.',
    'Is the best metric of later cycles no worse, by '
    f'{100 * MARGIN:g} % of the way?',
    ('peaks_soft', 'peaks_cyclic'),
    soft_is_no_worse_than_cyclic,
  ),
  Claim(
    'What a full reset costs, it costs through the parameters.',
    "Is the parameters' part in the evaluations to recover larger than the "
    "moments'?",
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    parameters_matter_more,
  ),
  Claim(
    'What a soft reset brings after a failure, it brings through the '
    'parameters.',
    "After a failed first cycle: is the parameters' part in the best metric "
    "of the second larger than the moments'?",
    ('failed_start_cyclic', 'failed_start_params', 'failed_start_soft'),
    parameters_matter_more_after_a_failure,
  ),
  Claim(
    'Early switching leaves cycles that fail.',
    "Does S(t), with figure 3.7's constants, fire in all of its failed cycles?",
    RUNS_REPLAYED,
    failed_cycles_are_left,
  ),
  Claim(
    'Early switching lets healthy cycles be.',
    "Does S(t), with figure 3.7's constants, fire in none of its good cycles?",
    RUNS_REPLAYED,
    healthy_cycles_are_let_be,
  ),
)

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
from .registry import first_switch, reset_label

REGAINED = 0.95
FAILED, GOOD = 0.1, 0.5
# Shares of the way that count as no difference where a claim says "no worse".
MARGIN = 0.01
_SIGNIFICANT = 0.05

Study = Mapping[str, Mapping[int, RunTable]]  # by run and seed, on one workload


def share_gone(value: np.ndarray, start: float, goal: float) -> np.ndarray:
  """(value - start) / (goal - start); 0 where the value is not finite.

  Args:
    value: shape=(n,), metrics.
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
  start, goal = table.metric[0], table.target.value
  return [share_gone(y, start, goal) for y in cycle_metrics(table)]


def final_share(table: RunTable, cycle: int) -> float:
  """The share of the way gone at the end of a cycle, counted from 0."""
  return float(shares(table)[cycle][-1])


def best_share(table: RunTable) -> float:
  """The largest share of the way that a cycle after the first has gone."""
  return float(np.concatenate(shares(table)[1:]).max())


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


class Measure(NamedTuple):
  """One measured quantity; a value per seed that has it."""

  name: str
  values: Sequence[float]


class Finding(NamedTuple):
  """What a workload's seeds say to a claim."""

  measures: Sequence[Measure]
  votes: Sequence[int]  # a seed each: 1 for, -1 against, 0 neither

  @property
  def counts(self) -> tuple[int, int, int]:
    """Seeds for, against and neither."""
    votes = list(self.votes)
    return votes.count(1), votes.count(-1), votes.count(0)

  @property
  def verdict(self) -> str:
    """'holds', 'does not hold' or 'undecided'."""
    num_for, num_against, _ = self.counts
    count = num_for + num_against
    if not count or stats.binomtest(num_for, count).pvalue >= _SIGNIFICANT:
      return 'undecided'
    return 'holds' if num_for > num_against else 'does not hold'


def _vote(larger: float, smaller: float) -> int:
  """1 if the first is larger, -1 if the second is, 0 if they are equal."""
  return (larger > smaller) - (larger < smaller)


# A seed's values of some quantities and its vote; None if it can't be asked.
Answer = tuple[Sequence[float], int] | None


def _ask(
  study: Study,
  runs: Sequence[str],
  columns: Sequence[str],
  question: Callable[..., Answer],
) -> Finding:
  """Asks the seeds that all of some runs were trained with, in order.

  Args:
    study: the runs of a workload.
    runs: whose tables the question is given.
    columns: what the values in the answers are.
    question: tables -> answer.
  """
  rows, votes = [], []
  for seed in sorted(set.intersection(*(set(study[run]) for run in runs))):
    row, vote = question(*(study[run][seed] for run in runs)) or (None, 0)
    votes.append(vote)
    if row is not None:
      rows.append(row)
  columns_of = zip(*rows) if rows else [()] * len(columns)
  found = [Measure(name, list(v)) for name, v in zip(columns, columns_of)]
  return Finding(found, votes)


def good_resets(*tables: RunTable) -> list[int]:
  """The boundaries that follow upon a good cycle in each of some runs."""
  return [
    reset
    for reset in range(min(table.num_cycles for table in tables) - 1)
    if all(final_share(table, reset) >= GOOD for table in tables)
  ]


def _mean_recovery(table: RunTable, resets: Sequence[int]) -> float:
  """A recovery that doesn't come in its cycle counts as the cycle and one."""
  lengths = [len(y) for y in cycle_metrics(table)]
  counts = [
    min(recovery(table, reset), lengths[reset + 1] + 1.0) for reset in resets
  ]
  return float(np.mean(counts))


def _is_faster(faster: str, slower: str) -> Callable[[Study], Finding]:
  """Votes for a run that recovers in fewer evaluations than another.

  The cyclic run is measured beside them: what it needs is the learning rate's.
  """
  runs = tuple(dict.fromkeys((slower, faster, 'peaks_cyclic')))

  def ask(study: Study) -> Finding:
    asked: list[tuple[Sequence[RunTable], Sequence[int]]] = []

    def question(*tables: RunTable) -> Answer:
      resets = good_resets(*tables)
      if not resets:
        return None
      asked.append((tables, resets))
      return (), _vote(*(_mean_recovery(t, resets) for t in tables[:2]))

    votes = _ask(study, runs, (), question).votes
    found = [
      Measure(
        f'{title} after cycle {reset + 1}, {reset_label(run)}',
        [measure(tables[i], reset) for tables, own in asked if reset in own],
      )
      for title, measure in (
        ('evaluations to recover', recovery),
        ('share of the way lost', loss_at_reset),
      )
      for reset in sorted({reset for _, resets in asked for reset in resets})
      for i, run in enumerate(runs)
    ]
    return Finding(found, votes)

  return ask


def _is_no_worse(run: str, other: str) -> Callable[[Study], Finding]:
  """Votes for a run whose later cycles' best is no worse than another's."""

  def question(*tables: RunTable) -> Answer:
    if final_share(tables[0], 0) < GOOD:
      return None
    best, others = map(best_share, tables)
    vote = 1 if best >= others - MARGIN else -1
    return (best, others, best - others), vote

  names = [
    f'best share of the way, {reset_label(name)}' for name in (run, other)
  ]
  return lambda study: _ask(
    study, (run, other), [*names, 'difference'], question
  )


def only_soft_leaves_a_failure(study: Study) -> Finding:
  """What becomes of a run whose first cycle has failed."""
  runs = ('failed_start_cyclic', 'failed_start_soft')
  gone: list[float] = []

  def question(cyclic: RunTable, soft: RunTable) -> Answer:
    gone.append(final_share(cyclic, 0))
    if gone[-1] >= FAILED:
      return None
    best = best_share(cyclic), best_share(soft)
    return best, 1 if best[0] < GOOD <= best[1] else -1

  columns = [f'best share after a failure, {reset_label(run)}' for run in runs]
  found, votes = _ask(study, runs, columns, question)
  first = Measure('share of the way gone by the first cycle', gone)
  return Finding([first, *found], votes)


def parameters_matter_more(study: Study) -> Finding:
  """The parameters' and the moments' part in what a full reset costs.

  From a full reset to none in two steps: keep the moments, then the parameters.
  """

  def question(*tables: RunTable) -> Answer:
    resets = good_resets(*tables)
    if not resets:
      return None
    full, kept, cyclic = (_mean_recovery(table, resets) for table in tables)
    parts = kept - cyclic, full - kept
    return parts, _vote(*map(abs, parts))

  return _ask(
    study,
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    ["parameters' part, evaluations", "moments' part, evaluations"],
    question,
  )


def parameters_matter_more_after_a_failure(study: Study) -> Finding:
  """The two parts in what a soft reset brings after a failed first cycle."""

  def question(*tables: RunTable) -> Answer:
    if final_share(tables[0], 0) >= FAILED:
      return None
    cyclic, params, soft = map(best_share, tables)
    parts = params - cyclic, soft - params
    return parts, _vote(*map(abs, parts))

  return _ask(
    study,
    ('failed_start_cyclic', 'failed_start_params', 'failed_start_soft'),
    ["parameters' part, share of the way", "moments' part, share of the way"],
    question,
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
  return first_switch(table.losses.loss[(steps > start) & (steps < end)])


def _switching(
  tables: Sequence[RunTable], failed: bool
) -> list[tuple[int | None, int]]:
  """(evaluation of the switch or None, best one up to it) of each cycle."""
  result = []
  for run, cycle in _CYCLES:
    table = tables[RUNS_REPLAYED.index(run)]
    share = shares(table)[cycle]
    if share[-1] < FAILED if failed else share[-1] >= GOOD:
      at = switching_evaluation(table, cycle)
      result.append((at, int(np.argmax(share[:at])) + 1))
  return result


def failed_cycles_are_left(study: Study) -> Finding:
  """Whether S(t) fires in the cycles that fail, and when."""
  delays: list[float] = []

  def question(*tables: RunTable) -> Answer:
    cycles = _switching(tables, failed=True)
    own = [at - best for at, best in cycles if at is not None]
    delays.extend(own)
    vote = 2 * (len(own) == len(cycles)) - 1 if cycles else 0
    return (len(cycles), len(own)), vote

  columns = ['failed cycles per seed', 'left by the rule']
  found, votes = _ask(study, RUNS_REPLAYED, columns, question)
  delay = Measure('evaluations from the best metric to the switch', delays)
  return Finding([*found, delay], votes)


def healthy_cycles_are_let_be(study: Study) -> Finding:
  """How often S(t) fires in a cycle that ends well."""

  def question(*tables: RunTable) -> Answer:
    cycles = _switching(tables, failed=False)
    left = sum(at is not None for at, _ in cycles)
    vote = (-1 if left else 1) if cycles else 0
    return (len(cycles), left), vote

  columns = ['good cycles per seed', 'left by the rule']
  return _ask(study, RUNS_REPLAYED, columns, question)


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
    _is_faster('peaks_cyclic', 'peaks_full'),
  ),
  Claim(
    'Keeping the momentum speeds up recovery in some cases.',
    'Does a reset of the parameters alone recover in fewer evaluations than a '
    'full one?',
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    _is_faster('peaks_kept', 'peaks_full'),
  ),
  Claim(
    'After a good cycle soft resets recover faster than full ones.',
    'Does the soft reset recover in fewer evaluations?',
    ('peaks_full', 'peaks_soft', 'peaks_cyclic'),
    _is_faster('peaks_soft', 'peaks_full'),
  ),
  Claim(
    'The best metric of later cycles is unchanged or better with soft resets.',
    f'Is it no worse than with full resets, by {100 * MARGIN:g} % of the way?',
    ('peaks_full', 'peaks_soft'),
    _is_no_worse('peaks_soft', 'peaks_full'),
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
    _is_no_worse('peaks_soft', 'peaks_cyclic'),
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

"""The claims of the thesis, and what seeds say to them: quantities and votes.

RESULTS.md says when a cycle is good or has failed, and how seeds vote. Of the
sign test at 5 %: nine of ten seeds, or all of six, carry a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from ...soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset
from ...views.run_files import RunTable
from .measures import (
  FAILED,
  GOOD,
  best_share,
  cycles_apart,
  decline,
  final_share,
  good_resets,
  loss_at_reset,
  mean_recovery,
  recovery,
  shares,
  switching_evaluation,
  to_its_asymptote,
)
from .settings import RUNS

# Shares of the way that count as no difference where a claim says "no worse".
MARGIN = 0.01
_SIGNIFICANT = 0.05
_LABELS: Mapping[type, str] = {
  FullReset: 'full',
  KeptMomentum: 'kept momentum',
  SoftReset: 'soft',
  Cyclic: 'cyclic',
}

Study = Mapping[str, Mapping[int, RunTable]]  # by run and seed, on one workload


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


# What a seed says: values of some quantities, by their names, and its vote.
Answer = tuple[Mapping[str, Sequence[float]], int]
Runs = Mapping[str, RunTable]  # a seed's, in the order of the claim


class Claim(NamedTuple):
  """A sentence of the thesis and how it is put to the test."""

  sentence: str
  question: str  # what a seed is asked; yes counts for the claim
  runs: tuple[str, ...]  # keys of RUNS
  answer: Callable[[Runs], Answer]

  def ask(self, study: Study) -> Finding:
    """Asks the seeds that all of the claim's runs were trained with."""
    values_of: dict[str, list[float]] = {}
    votes = []
    common = set.intersection(*(set(study[run]) for run in self.runs))
    for seed in sorted(common):
      values, vote = self.answer({run: study[run][seed] for run in self.runs})
      votes.append(vote)
      for name, own in values.items():
        values_of.setdefault(name, []).extend(own)
    return Finding([Measure(*item) for item in values_of.items()], votes)


def _label(run: str) -> str:
  """How a run resets; says where a soft reset leaves the moments alone."""
  reset = RUNS[run].reset
  if isinstance(reset, SoftReset) and reset.alpha == 0.0:
    return 'soft, parameters alone'
  return _LABELS[type(reset)]


def _recovers_later(runs: Runs) -> Answer:
  """Whether the first run takes more evaluations to recover than the second.

  The cyclic run is measured beside them: what it needs is the learning rate's.
  """
  resets = good_resets(runs.values())
  values = {
    f'{title} after cycle {reset + 1}, {_label(run)}': (
      [measure(table, reset)] if is_good else []
    )
    for title, measure in (
      ('evaluations to recover', recovery),
      ('share of the way lost', loss_at_reset),
    )
    for reset, is_good in enumerate(resets)
    for run, table in runs.items()
  }
  if not any(resets):
    return values, 0
  first, second, *_ = (mean_recovery(t, resets) for t in runs.values())
  return values, _vote(first, second)


def _soft_is_no_worse(runs: Runs) -> Answer:
  """Whether later cycles are no worse with soft resets than in another run."""
  names = sorted(runs, key=lambda run: run != 'peaks_soft')
  if final_share(runs[names[0]], 0) < GOOD:
    return {}, 0
  soft, other = (best_share(runs[run]) for run in names)
  values = {
    f'best share of the way, {_label(run)}': [best]
    for run, best in zip(names, (soft, other))
  }
  values['difference'] = [soft - other]
  return values, 1 if soft >= other - MARGIN else -1


def _leaves_a_failure(runs: Runs) -> Answer:
  """What becomes of a run whose first cycle has failed."""
  cyclic, soft = runs.values()
  gone = final_share(cyclic, 0)
  values = {'share of the way gone by the first cycle': [gone]}
  if gone >= FAILED:
    return values, 0
  for run, table in runs.items():
    name = f'best share after a failure, {_label(run)}'
    values[name] = [best_share(table)]
  return values, 1 if best_share(cyclic) < GOOD <= best_share(soft) else -1


def _parts(parameters: float, moments: float, unit: str) -> Answer:
  values = {
    f"parameters' part, {unit}": [parameters],
    f"moments' part, {unit}": [moments],
  }
  return values, _vote(abs(parameters), abs(moments))


def _parts_of_costs(runs: Runs) -> Answer:
  """The parameters' and the moments' part in what a full reset costs.

  From a full reset to none in two steps: keep the moments, then the parameters.
  """
  resets = good_resets(runs.values())
  if not any(resets):
    return {}, 0
  full, kept, cyclic = (mean_recovery(t, resets) for t in runs.values())
  return _parts(kept - cyclic, full - kept, 'evaluations')


def _parts_after_a_failure(runs: Runs) -> Answer:
  """The two parts in what a soft reset brings after a failed first cycle."""
  if final_share(next(iter(runs.values())), 0) >= FAILED:
    return {}, 0
  cyclic, params, soft = map(best_share, runs.values())
  return _parts(params - cyclic, soft - params, 'share of the way')


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


def _failed_cycles_are_abandoned(runs: Runs) -> Answer:
  """Whether S(t) fires in the cycles that fail, and when."""
  num_failed, delays = 0, []
  for run, cycle in _CYCLES:
    share = shares(runs[run])[cycle]
    if share[-1] < FAILED:
      num_failed += 1
      at = switching_evaluation(runs[run], cycle)
      if at is not None:
        delays.append(at - int(np.argmax(share[:at])) - 1)
  values = {
    'failed cycles per seed': [num_failed],
    'abandoned by the rule': [len(delays)],
    'evaluations from the best metric to the switch': delays,
  }
  if not num_failed:
    return values, 0
  return values, 1 if len(delays) == num_failed else -1


def _healthy_cycles_are_let_be(runs: Runs) -> Answer:
  """How often S(t) fires in a cycle that ends well."""
  switches = [
    switching_evaluation(runs[run], cycle)
    for run, cycle in _CYCLES
    if final_share(runs[run], cycle) >= GOOD
  ]
  num_abandoned = sum(at is not None for at in switches)
  values = {
    'good cycles per seed': [len(switches)],
    'abandoned by the rule': [num_abandoned],
  }
  if not switches:
    return values, 0
  return values, -1 if num_abandoned else 1


# What section 3.3.2 says of the curves in its figures 3.4, 3.8 and 3.9.


def _good_values(
  runs: Runs, measure: Callable[[RunTable, int], float], name: str
) -> dict[str, list[float]]:
  """A measure after each good cycle, by the run's kind of reset."""
  resets = good_resets(runs.values())
  return {
    f'{name}, {_label(run)}': [
      measure(table, reset) for reset, is_good in enumerate(resets) if is_good
    ]
    for run, table in runs.items()
  }


def _full_is_more_alike(runs: Runs) -> Answer:
  if not all(good_resets(runs.values())):
    return {}, 0
  full, soft = map(cycles_apart, runs.values())
  names = (f'cycles 2 and 3 apart, {_label(run)}' for run in runs)
  return dict(zip(names, ([full], [soft]))), _vote(soft, full)


def _levels_off_earlier(runs: Runs) -> Answer:
  values = _good_values(runs, to_its_asymptote, 'evaluations to the asymptote')
  full, soft = values.values()
  if not full:
    return values, 0
  return values, _vote(float(np.mean(full)), float(np.mean(soft)))


def _exceeds_margin(
  runs: Runs, measure: Callable[[RunTable, int], float], name: str
) -> Answer:
  """Whether the mean over good cycles is at least MARGIN of the way."""
  values = _good_values(runs, measure, name)
  [of_cycles] = values.values()
  if not of_cycles:
    return values, 0
  return values, 1 if float(np.mean(of_cycles)) >= MARGIN else -1


def _declines(runs: Runs) -> Answer:
  return _exceeds_margin(runs, decline, 'share lost after the recovery')


def _dips_without_a_reset(runs: Runs) -> Answer:
  return _exceeds_margin(runs, loss_at_reset, 'share lost at a boundary')


def _larger_tau_is_harder(runs: Runs) -> Answer:
  """Whether the reset with the larger tau loses the larger share."""
  [table] = runs.values()
  taus = [tau for _, tau in table.resets]
  if len(taus) < 2 or taus[0] == taus[1] or not all(good_resets([table])):
    return {}, 0
  losses = [loss_at_reset(table, reset) for reset in (0, 1)]
  values = {
    'tau of the larger': [max(taus)],
    'share lost with it': [losses[taus.index(max(taus))]],
    'share lost with the smaller': [losses[taus.index(min(taus))]],
  }
  return values, _vote(*(x[0] for x in [*values.values()][1:]))


CLAIMS = (
  Claim(
    'Full resets forget and recover slowly.',
    'Does the full reset take more evaluations to recover than the learning '
    'rate alone costs (cyclic)?',
    ('peaks_full', 'peaks_cyclic'),
    _recovers_later,
  ),
  Claim(
    'Keeping the momentum speeds up recovery in some cases.',
    'Does a reset of the parameters alone recover in fewer evaluations than a '
    'full one?',
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    _recovers_later,
  ),
  Claim(
    'After a good cycle soft resets recover faster than full ones.',
    'Does the soft reset recover in fewer evaluations?',
    ('peaks_full', 'peaks_soft', 'peaks_cyclic'),
    _recovers_later,
  ),
  Claim(
    'The best metric of later cycles is unchanged or better with soft resets.',
    f'Is it no worse than with full resets, by {100 * MARGIN:g} % of the way?',
    ('peaks_full', 'peaks_soft'),
    _soft_is_no_worse,
  ),
  Claim(
    'Cyclic training does not recover from a failed first cycle; soft resets '
    'do.',
    'After a failed first cycle: does the second get half of the way with a '
    'soft reset, and not without?',
    ('failed_start_cyclic', 'failed_start_soft'),
    _leaves_a_failure,
  ),
  Claim(
    'After good cycles soft resets are no worse than cyclic training.',
    'Is the best metric of later cycles no worse, by '
    f'{100 * MARGIN:g} % of the way?',
    ('peaks_soft', 'peaks_cyclic'),
    _soft_is_no_worse,
  ),
  Claim(
    'What a full reset costs, it costs through the parameters.',
    "Is the parameters' part in the evaluations to recover larger than the "
    "moments'?",
    ('peaks_full', 'peaks_kept', 'peaks_cyclic'),
    _parts_of_costs,
  ),
  Claim(
    'What a soft reset brings after a failure, it brings through the '
    'parameters.',
    "After a failed first cycle: is the parameters' part in the best metric "
    "of the second larger than the moments'?",
    ('failed_start_cyclic', 'failed_start_params', 'failed_start_soft'),
    _parts_after_a_failure,
  ),
  Claim(
    'Early switching abandons cycles that fail.',
    "Does S(t), with figure 3.7's constants, fire in all of its failed cycles?",
    RUNS_REPLAYED,
    _failed_cycles_are_abandoned,
  ),
  Claim(
    'Early switching lets healthy cycles be.',
    "Does S(t), with figure 3.7's constants, fire in none of its good cycles?",
    RUNS_REPLAYED,
    _healthy_cycles_are_let_be,
  ),
  Claim(
    'After full resets the cycles are more alike than after soft ones.',
    'Are the shares of the way in cycles 2 and 3 less far apart with full '
    'resets, at the same evaluation of the cycle?',
    ('peaks_full', 'peaks_soft'),
    _full_is_more_alike,
  ),
  Claim(
    'Soft resets enter the asymptotic phase earlier than full ones.',
    'Does a cycle come to 95 % of its own best share of the way in fewer '
    'evaluations with soft resets?',
    ('peaks_full', 'peaks_soft'),
    _levels_off_earlier,
  ),
  Claim(
    'A quick recovery is followed by a short decline.',
    'In the first half of a cycle, once a soft reset has recovered: does the '
    f'metric fall again by {100 * MARGIN:g} % of the way or more?',
    ('peaks_soft',),
    _declines,
  ),
  Claim(
    'The metric dips at a boundary even where tau is 0.',
    'Where nothing is reset and the rate alone changes: is '
    f'{100 * MARGIN:g} % of the way or more lost?',
    ('peaks_cyclic',),
    _dips_without_a_reset,
  ),
  Claim(
    'A smaller tau is a softer reset.',
    'Of the two soft resets of a run: does the one with the larger tau lose '
    'more of the way?',
    ('peaks_soft',),
    _larger_tau_is_harder,
  ),
)

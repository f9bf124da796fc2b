"""What each figure of the thesis shows, as a question to a seed of its runs.

Pictures, RESULTS.md and the tests ask the same functions. A seed is asked if
its runs have started all of their cycles, and evaluated the model in each.
Shares of the way, cycles that fail or are good: see `claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...views.run_files import RunTable
from .measures import (
  FAILED,
  GOOD,
  cycle_metrics,
  final_share,
  good_resets,
  loss_at_reset,
  mean_recovery,
  shares,
)
from .settings import RUNS

# Shares of the way: less is no difference to speak of. A cycle that gains less
# has failed.
LITTLE = FAILED
_DRIFT = 0.01  # of the time of a run
_ENOUGH = 10  # seeds; fewer carry no verdict

Tables = Sequence[RunTable]  # a seed's, in the order of the figure


class Premise(NamedTuple):
  """What the thesis' figure shows, and whether a seed shows it, too."""

  sentence: str
  holds: Callable[[Tables], bool | None]  # None: the seed has no such cycle


class Held(NamedTuple):
  """In how many of the seeds that were asked a premise holds."""

  seeds: int
  asked: int

  @property
  def in_most(self) -> bool:
    """Whether it holds in more than half of them."""
    return 2 * self.seeds > self.asked

  @property
  def verdict(self) -> str:
    """'as', 'unlike' or, of fewer seeds than ten, 'no verdict'."""
    if self.asked < _ENOUGH:
      return 'no verdict'
    return 'as' if self.in_most else 'unlike'

  def __str__(self) -> str:
    return f'{self.seeds} of {self.asked}'


def held(name: str, runs: Mapping[str, Iterable[RunTable]]) -> Held:
  """Asks the seeds that all runs of a figure, a key of PREMISES, have."""
  by_seed = [
    {table.seed: table for table in tables} for tables in runs.values()
  ]
  common = set.intersection(*(set(tables) for tables in by_seed))
  asked = [[tables[seed] for tables in by_seed] for seed in common]
  answers = [
    PREMISES[name].holds(tables)
    for tables in asked
    if all(map(_is_whole, runs, tables))
  ]
  return Held(answers.count(True), len(answers) - answers.count(None))


def _is_whole(run: str, table: RunTable) -> bool:
  """Whether all cycles have begun, with an evaluation in each."""
  is_begun = table.num_cycles == len(RUNS[run].cycles)
  return is_begun and all(len(y) for y in cycle_metrics(table))


def _peaks(table: RunTable) -> list[tuple[float, float]]:
  """For each cycle, the share of steps before the highest rate; that rate."""
  parts = np.split(table.rates, table.cycle_starts[1:])
  return [(rates.argmax() / rates.size, float(rates.max())) for rates in parts]


def _is_mostly_decay(tables: Tables) -> bool:
  [(share, _)] = _peaks(tables[0])
  return 0.21 < share < 0.23


def _have_three_peaks(tables: Tables) -> bool:
  (_, first), (_, second), (_, third) = _peaks(tables[0])
  return second > first > third


def _have_three_decays(tables: Tables) -> bool:
  """One peak; rates after .6 of the cycle that differ by at least a tenth."""
  table = tables[0]
  starts, ends = np.array(table.cycle_starts), np.array(table.cycle_ends)
  later = table.rates[(starts + 0.6 * (ends - starts)).astype(int)]
  highest = [peak for _, peak in _peaks(table)]
  is_one = max(highest) < 1.01 * min(highest)
  return is_one and bool(np.diff(np.sort(later)).min() > 0.1 * min(highest))


def _have_three_warmups(tables: Tables) -> bool:
  (first, a), (second, b), (third, c) = _peaks(tables[0])
  return second > first > third and max(a, b, c) < 1.01 * min(a, b, c)


def _drift_apart(tables: Tables) -> bool:
  """Whether the runs' seconds at the same last step differ by more than 1 %."""
  first, second = (float(table.eval_times[-1]) for table in tables)
  return abs(first - second) > _DRIFT * min(first, second)


def _mean_shares(table: RunTable) -> list[float]:
  """The mean over a cycle's evaluations of the share of the way gone."""
  return [float(np.mean(share)) for share in shares(table)]


def _are_steeper(tables: Tables) -> bool:
  first, second, third = _mean_shares(tables[0])
  return second > first > third


def _end_alike(tables: Tables) -> bool:
  ends = [final_share(tables[0], i) for i in range(3)]
  return max(ends) - min(ends) < LITTLE


def _difference(tables: Tables) -> float:
  """The larger of the two differences between runs, in cycles 2 and 3."""
  full, kept = map(_mean_shares, tables)
  return max(abs(a - b) for a, b in zip(full[1:], kept[1:]))


def _later_cycles_fail(tables: Tables) -> bool:
  first, second, third = (final_share(tables[0], i) for i in range(3))
  return first >= GOOD and max(second, third) < FAILED


def _losses(table: RunTable, shown: str) -> list[np.ndarray]:
  """A column of `Losses` at the evaluations of each cycle."""
  values, steps = getattr(table.losses, shown), table.losses.steps
  spans = zip(table.cycle_starts, table.cycle_ends)
  return [values[(steps > start) & (steps <= end)] for start, end in spans]


def _stays_high(tables: Tables) -> bool:
  """Whether later cycles never come down to the last loss of the first."""
  first, *later = _losses(tables[0], 'loss')
  return all(float(loss.min()) > first[-1] for loss in later)


def _is_smoother(tables: Tables) -> bool:
  """Whether, in each later cycle, l moves less in all than L."""
  raw, smoothed = (_losses(tables[0], x) for x in ('loss', 'smoothed_loss'))
  moves = [
    [float(np.abs(np.diff(x)).sum()) for x in own[1:]]
    for own in (raw, smoothed)
  ]
  return all(b < a for a, b in zip(*moves))


def _rises_in_failures(tables: Tables) -> bool:
  """Whether l' is above 0 at some evaluation of each later cycle."""
  _, *later = _losses(tables[0], 'loss_change')
  return all(float(change.max()) > 0 for change in later)


def _failures_are_abandoned(tables: Tables) -> bool:
  """Whether each later cycle ends by a switch, and the first does not."""
  [table] = tables
  ends = [step for step, _ in table.switches]
  has_failed = max(final_share(table, i) for i in (1, 2)) < FAILED
  return has_failed and ends == table.cycle_ends[1:]


def _recovers_faster(tables: Tables) -> bool | None:
  """Whether the second run recovers from good cycles faster than the first."""
  resets = good_resets(tables)
  if not any(resets):
    return None
  full, soft = (mean_recovery(table, resets) for table in tables)
  return soft < full


def _dips_a_little(tables: Tables) -> bool:
  full, soft = tables
  is_better = shares(soft)[1].max() > shares(full)[1].max()
  return loss_at_reset(soft, 0) < LITTLE and bool(is_better)


def _stays_flat(tables: Tables) -> bool:
  return max(final_share(tables[0], i) for i in (0, 1)) < FAILED


def _recovers_from_a_failure(tables: Tables) -> bool:
  [table] = tables
  [(_, tau)] = table.resets
  has_failed = final_share(table, 0) < FAILED
  return has_failed and tau > 1 - FAILED and final_share(table, 1) >= GOOD


_THREE_PEAKS = Premise(
  'The second cycle has the highest peak, the third the lowest.',
  _have_three_peaks,
)
_LITTLE = f'less than {100 * LITTLE:g} % of the way'
_FASTER = Premise(
  'After good cycles the soft reset recovers faster than the full one.',
  _recovers_faster,
)
_KEPT_FASTER = Premise(
  'After good cycles keeping the momentum recovers faster.', _recovers_faster
)
_KEPT = Premise(
  f"Keeping the momentum makes little difference to a cycle's mean: {_LITTLE}.",
  lambda tables: _difference(tables) < LITTLE,
)
PREMISES: Mapping[str, Premise] = {
  'fig2.1': Premise('The rate peaks after .22 of the cycle.', _is_mostly_decay),
  'fig3.1': Premise('The runs drift apart in time.', _drift_apart),
  'fig3.3a': _THREE_PEAKS,
  'fig3.3b': Premise('A higher peak makes a cycle steeper.', _are_steeper),
  'fig3.3c': Premise('One peak, three decays.', _have_three_decays),
  'fig3.3d': Premise(
    f'The decay makes little difference: {_LITTLE}.', _end_alike
  ),
  'fig3.3e': Premise('One peak, three warm-ups.', _have_three_warmups),
  'fig3.3f': Premise(
    f'The warm-up makes little difference: {_LITTLE}.', _end_alike
  ),
  'fig3.4a': _KEPT,
  'fig3.4b': _KEPT,
  'fig3.4c': _KEPT_FASTER,
  'fig3.5': Premise(
    'The second and the third cycle fail, the first is good.',
    _later_cycles_fail,
  ),
  'fig3.6a': Premise(
    'In the cycles that fail the loss stays above the end of the first.',
    _stays_high,
  ),
  'fig3.6b': Premise(
    'The smoothed loss moves less than the loss.', _is_smoother
  ),
  'fig3.6c': Premise(
    "A derivative l' above 0 marks the cycles that fail.", _rises_in_failures
  ),
  'fig3.7': Premise(
    'Both cycles that fail are abandoned, the first one is not.',
    _failures_are_abandoned,
  ),
  'fig3.8a': _FASTER,
  'fig3.8b': _FASTER,
  'fig3.8c': _FASTER,
  'fig3.9a': _THREE_PEAKS,
  'fig3.9b': Premise(
    f'The soft reset costs {_LITTLE}; the second cycle becomes better.',
    _dips_a_little,
  ),
  'fig3.10': Premise(
    'The first cycle fails, and the second one, too.', _stays_flat
  ),
  'fig3.11': Premise(
    'The first cycle fails; after a reset with tau above .9 the second is '
    'good.',
    _recovers_from_a_failure,
  ),
  'figA.1c': _KEPT_FASTER,
}

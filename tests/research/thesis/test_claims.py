"""What a reset cost a run, and the votes of made-up seeds."""

import math

import numpy as np
import pytest

from helpers.curves_of_runs import run_table
from reset_cycles.research.thesis import claims, measures
from reset_cycles.research.thesis.claims import Finding


def test_share_of_the_way_of_rising_and_falling_metrics():
  rising = measures.share_gone(np.array([0.1, 0.3, 0.5, 0.6]), 0.1, 0.5)
  np.testing.assert_allclose(rising, [0.0, 0.5, 1.0, 1.25])
  falling = measures.share_gone(np.array([0.9, 0.5, 0.1, 0.0]), 0.9, 0.1)
  np.testing.assert_allclose(falling, [0.0, 0.5, 1.0, 1.125])
  # What is not finite has gone nothing.
  values = np.array([math.nan, math.inf, -math.inf])
  assert measures.share_gone(values, 0.0, 1.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
  ('before', 'after', 'expected'),
  [
    # From 0 to 0.5 before the reset: 95 % of the way is 0.475.
    ([0.0, 0.5], [0.475, 0.4], 1),
    ([0.0, 0.5], [0.0, 0.474, 0.476], 3),
    ([0.0, 0.5], [0.0, 0.2, 0.47], math.inf),  # whatever the next cycle does
    ([0.0, 0.5], [math.nan, 0.5], 2),
    # It falls: 95 % of the way from 0.9 to 0.1 is 0.14.
    ([0.9, 0.1], [0.5, 0.141, 0.139], 3),
  ],
)
def test_recovery_counts_evaluations(before, after, expected):
  table = run_table(before, after, [before[-1]], target=0.05)
  assert measures.recovery(table, 0) == expected
  assert measures.recovery(table, 1) == 1


@pytest.mark.parametrize(
  ('num_for', 'num_against', 'num_neither', 'expected'),
  [
    # Two-sided p of 9:1 is 0.021, of 8:2 0.109, of 6:0 0.031, of 5:0 0.0625.
    (9, 1, 0, 'holds'),
    (8, 2, 0, 'undecided'),
    (6, 0, 4, 'holds'),
    (5, 0, 5, 'undecided'),
    (1, 9, 0, 'does not hold'),
    (0, 6, 4, 'does not hold'),
    (0, 0, 10, 'undecided'),
  ],
)
def test_verdicts(num_for, num_against, num_neither, expected):
  votes = [1] * num_for + [-1] * num_against + [0] * num_neither
  assert Finding([], votes).verdict == expected


def ask(beginning, study):
  [claim] = [c for c in claims.CLAIMS if c.sentence.startswith(beginning)]
  return claim.ask(study)


def values(finding):
  return {measure.name: list(measure.values) for measure in finding.measures}


GOOD_START = [0.0, 0.8]
FULL = run_table(GOOD_START, [0.1, 0.5, 0.77], [0.7])  # recovers 3rd, never
SOFT = run_table(GOOD_START, [0.78, 0.9, 0.9], [0.9])  # 1st, 1st
CYCLIC = run_table(GOOD_START, [0.7, 0.8, 0.8], [0.8])  # 2nd, 1st
SLOW = run_table([0.0, 0.4], [0.1, 0.5, 0.6], [0.8])  # no good first cycle


def test_recoveries_are_compared_seed_by_seed():
  study = {
    'peaks_full': {1: FULL, 2: FULL, 3: SLOW, 4: FULL},
    'peaks_soft': {1: SOFT, 2: FULL, 3: SLOW},
    'peaks_cyclic': {1: CYCLIC, 2: CYCLIC, 3: CYCLIC},
  }
  finding = ask('After a good cycle', study)
  # Seed 2 is a tie. Seed 3 has a good cycle before its second boundary alone,
  # where all recover at once. Seed 4 is not complete.
  assert finding.votes == [1, 0, 0]
  never = math.inf
  assert values(finding) == {
    'evaluations to recover after cycle 1, full': [3.0, 3.0],
    'evaluations to recover after cycle 1, soft': [1.0, 3.0],
    'evaluations to recover after cycle 1, cyclic': [2.0, 2.0],
    'evaluations to recover after cycle 2, full': [never, never, 1.0],
    'evaluations to recover after cycle 2, soft': [1.0, never, 1.0],
    'evaluations to recover after cycle 2, cyclic': [1.0, 1.0, 1.0],
    'share of the way lost after cycle 1, full': pytest.approx([0.875] * 2),
    'share of the way lost after cycle 1, soft': pytest.approx([0.025, 0.875]),
    'share of the way lost after cycle 1, cyclic': pytest.approx([0.125] * 2),
    'share of the way lost after cycle 2, full': pytest.approx(
      [7 / 77, 7 / 77, -1 / 3]
    ),
    'share of the way lost after cycle 2, soft': pytest.approx(
      [0.0, 7 / 77, -1 / 3]
    ),
    'share of the way lost after cycle 2, cyclic': pytest.approx([0.0] * 3),
  }


@pytest.mark.parametrize(
  ('best', 'vote'), [(0.9, 1), (0.8, 1), (0.791, 1), (0.789, -1)]
)
def test_no_worse_leaves_a_margin_of_one_hundredth(best, vote):
  soft = run_table(GOOD_START, [0.1, best], [0.3])
  other = run_table(GOOD_START, [0.1, 0.2], [0.8])
  study = {'peaks_soft': {1: soft}, 'peaks_cyclic': {1: other}}
  finding = ask('After good cycles', study)
  assert finding.votes == [vote]
  assert values(finding)['difference'] == pytest.approx([best - 0.8])


@pytest.mark.parametrize(
  ('first', 'cyclic', 'soft', 'vote'),
  [
    (0.09, 0.1, 0.6, 1),
    (0.09, 0.6, 0.7, -1),  # it recovers without a reset, too
    (0.09, 0.1, 0.4, -1),
    (0.2, 0.1, 0.6, 0),  # the first cycle has not failed
  ],
)
def test_who_leaves_a_failed_first_cycle(first, cyclic, soft, vote):
  study = {
    'failed_start_cyclic': {1: run_table([0.0, first], [cyclic])},
    'failed_start_soft': {1: run_table([0.0, first], [soft])},
  }
  finding = ask('Cyclic training', study)
  assert finding.votes == [vote]
  best = {
    'best share after a failure, cyclic': [cyclic],
    'best share after a failure, soft': [soft],
  }
  gone = {'share of the way gone by the first cycle': [first]}
  assert values(finding) == {**gone, **(best if vote else {})}


def test_the_parts_of_a_full_reset_add_up():
  kept = run_table(GOOD_START, [0.5, 0.5, 0.77], [0.8])  # 3rd, 1st
  study = {
    'peaks_full': {1: FULL},
    'peaks_kept': {1: kept},
    'peaks_cyclic': {1: CYCLIC},
  }
  finding = ask('What a full reset', study)
  # Full: 3 and, for never in a cycle of one evaluation, 2; kept 3 and 1; cyclic
  # 2 and 1.
  assert values(finding) == {
    "parameters' part, evaluations": [0.5],
    "moments' part, evaluations": [0.5],
  }
  assert finding.votes == [0]


def test_the_parts_of_what_a_soft_reset_brings():
  study = {
    'failed_start_cyclic': {1: run_table([0.0, 0.01], [0.1])},
    'failed_start_params': {1: run_table([0.0, 0.01], [0.7])},
    'failed_start_soft': {1: run_table([0.0, 0.01], [0.6])},
  }
  finding = ask('What a soft reset', study)
  assert values(finding) == {
    "parameters' part, share of the way": pytest.approx([0.6]),
    "moments' part, share of the way": pytest.approx([-0.1]),
  }
  assert finding.votes == [1]


def test_the_rule_is_replayed_cycle_by_cycle():
  # lambda = 0.7: l = 1, 1 - 0.35, then up by 0.7 * 0.35: more than 0.01.
  table = run_table([0.0] * 4, [0.0] * 3, losses=[1, 0.5, 1, 1, 5, 4, 3])
  assert measures.switching_evaluation(table, 0) == 3
  # The second cycle starts anew: 5 is not a rise over 1.
  assert measures.switching_evaluation(table, 1) is None
  # A switch at the end of a cycle is none.
  table = run_table([0.0] * 3, [0.0] * 3, losses=[1, 0.5, 1, 5, 4, 3])
  assert measures.switching_evaluation(table, 0) is None


def switching_study(failed_losses, good_losses):
  """A failed third cycle and a failed first one; all others are good."""
  good = run_table(*[[0.0, 0.6, 0.7, 0.9]] * 3, losses=good_losses * 3)
  failing = run_table(
    *[[0.0, 0.6, 0.7, 0.9]] * 2,
    [0.0, 0.05, 0.01, 0.08],
    losses=good_losses * 2 + failed_losses,
  )
  start = run_table(
    [0.0, 0.02, 0.02, 0.03], [0.9], losses=[*failed_losses, 1.0]
  )
  runs = {'peaks_full': good, 'peaks_soft': good, 'failing_full': failing}
  return {n: {1: t} for n, t in {**runs, 'failed_start_cyclic': start}.items()}


def test_cycles_that_are_abandoned():
  study = switching_study([1.0, 0.5, 1.0, 1.0], [1.0, 0.5, 0.4, 0.4])
  failed = ask('Early switching abandons', study)
  assert failed.votes == [1]
  # S(t) = 1 at the third evaluation, the best metric before it at the second;
  # twice. What comes after the switch would not have been seen.
  assert values(failed) == {
    'failed cycles per seed': [2],
    'abandoned by the rule': [2],
    'evaluations from the best metric to the switch': [1, 1],
  }
  healthy = ask('Early switching lets', study)
  assert healthy.votes == [1]
  assert values(healthy) == {
    'good cycles per seed': [6],
    'abandoned by the rule': [0],
  }


# What section 3.3.2 says of the curves: the way leads from 0 to 1.


def test_how_far_two_cycles_are_apart():
  """(.1 + .2 + .3) / 3; the fourth evaluation of the third has no partner."""
  table = run_table(
    [0.0, 0.8], [0.1, 0.6, 0.9], [0.2, 0.4, 0.6, 0.8], taus=[0, 0]
  )
  assert measures.cycles_apart(table) == pytest.approx(0.2)


@pytest.mark.parametrize(
  ('full', 'soft', 'vote'),
  [
    (([0.1, 0.6], [0.1, 0.7]), ([0.5, 0.8], [0.8, 0.9]), 1),
    (([0.1, 0.6], [0.5, 0.7]), ([0.8, 0.8], [0.8, 0.9]), -1),
    # The second cycle is not good.
    (([0.1, 0.4], [0.1, 0.4]), ([0.8, 0.8], [0.8, 0.9]), 0),
  ],
)
def test_cycles_that_are_more_alike(full, soft, vote):
  study = {
    'peaks_full': {1: run_table(GOOD_START, *full)},
    'peaks_soft': {1: run_table(GOOD_START, *soft)},
  }
  assert ask('After full resets the cycles', study).votes == [vote]


def test_the_evaluations_until_a_cycle_levels_off():
  """Its best is .8, and 95 % of that .76."""
  table = run_table(GOOD_START, [0.1, 0.75, 0.76, 0.8])
  assert measures.to_its_asymptote(table, 0) == 3
  study = {
    'peaks_full': {1: table, 2: table},
    'peaks_soft': {
      1: run_table(GOOD_START, [0.78, 0.8]),
      2: run_table(GOOD_START, [0.1, 0.1, 0.1, 0.8]),
    },
  }
  finding = ask('Soft resets enter', study)
  assert finding.votes == [1, -1]
  assert values(finding) == {
    'evaluations to the asymptote, full': [3.0, 3.0],
    'evaluations to the asymptote, soft': [1.0, 4.0],
  }


@pytest.mark.parametrize(
  ('cycle', 'expected'),
  [
    # .76 is regained at once; then .7, in the first half of six.
    ([0.76, 0.78, 0.7, 0.9, 0.2, 0.9], 0.08),
    # The fall comes later.
    ([0.76, 0.78, 0.8, 0.1, 0.9, 0.9], 0.0),
    # It has not recovered by the middle.
    ([0.2, 0.1, 0.3, 0.8, 0.7, 0.9], 0.0),
  ],
)
def test_the_decline_after_a_recovery(cycle, expected):
  table = run_table(GOOD_START, cycle)
  assert measures.decline(table, 0) == pytest.approx(expected)
  finding = ask('A quick recovery', {'peaks_soft': {1: table}})
  assert finding.votes == [1 if expected >= 0.01 else -1]


@pytest.mark.parametrize(
  ('after', 'vote'), [(0.791, 1), (0.793, -1), (0.9, -1)]
)
def test_a_dip_where_nothing_is_reset(after, vote):
  """Of .8, 1 % is lost at .792."""
  table = run_table(GOOD_START, [after, 0.9])
  finding = ask('The metric dips', {'peaks_cyclic': {1: table}})
  assert finding.votes == [vote]


@pytest.mark.parametrize(
  ('taus', 'vote'), [([0.5, 0.1], 1), ([0.1, 0.5], -1), ([0.1, 0.1], 0)]
)
def test_a_smaller_tau_is_a_softer_reset(taus, vote):
  """A half is lost at the first reset, and a quarter at the second."""
  table = run_table(GOOD_START, [0.4, 0.8], [0.6, 0.9], taus=taus)
  finding = ask('A smaller tau', {'peaks_soft': {1: table}})
  assert finding.votes == [vote]
  if vote:
    lost = [0.5, 0.25] if vote > 0 else [0.25, 0.5]
    assert [
      v for own in values(finding).values() for v in own
    ] == pytest.approx([0.5, *lost])

"""The range test: its rates, its estimate by hand, and a run that begins so."""

import math

import numpy as np
import pytest

from helpers.replay import PEAK, config_of, make_params, of, replay, story
from reset_cycles.core import control as control_lib
from reset_cycles.core import schedules
from reset_cycles.core.evaluation import TimeHorizon
from reset_cycles.core.range_test import RangeTest

NAN, INF = math.nan, math.inf
case = pytest.param
# Around a peak of .01 the rates are .00125, .005, .02 and .08.
TEST = RangeTest(steps=4, reach=8.0, tolerance=4.0)


@pytest.mark.parametrize(
  ('losses', 'estimate'),
  (
    # Each loss follows from the rate before it, and rises with its own.
    case([8, 4, 6, 9], 0.0025, id='in the middle'),
    case([8, 4, 2, 1], 0.04, id='falls at last'),
    case([8, 8.5, 2, 3], 0.01, id='not the first fall'),
    case([1, 1.05, 1.06, 1.1], 0.000625, id='rising'),
    # A tenth above the first loss, and whatever follows is ignored.
    case([8, 4, 8.9, 2], 0.0025, id='broken'),
    case([8, 4, 8.7, 2], 0.04, id='not quite broken'),
    case([-8, -9, -7, -99], 0.0025, id='broken below zero'),
    case([8, 9, 2, 1], 0.000625, id='broken at once'),
    # The first of equal minima.
    case([8, 4, 4, 5], 0.0025, id='equal minima'),
    case([1, 1, 1, 1], 0.000625, id='flat'),
    case([8, 4, NAN, 2], 0.0025, id='nan'),
    case([8, 4, INF, 2], 0.0025, id='infinite'),
    case([8, 4, -INF, 2], 0.0025, id='minus infinite'),
    case([8, NAN, NAN, NAN], 0.000625, id='nan after the first'),
    case([NAN, 1, 1, 1], NAN, id='nan at first'),
  ),
)
def test_the_estimate_by_hand(losses, estimate):
  found = TEST.estimate(np.float32(losses), 0.01)
  assert found == pytest.approx(estimate, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
  ('estimate', 'scale'),
  (
    (0.5, 1.0),
    (2.0, 1.0),
    (0.125, 1.0),
    # Beyond a factor of four the peak comes as near as that.
    (3.0, 1.5),
    (0.0625, 0.5),
    (NAN, 1.0),
  ),
)
def test_the_tolerance(estimate, scale):
  assert TEST.scale(estimate, 0.5) == scale


def test_the_rates_that_the_clock_reads():
  config = config_of(make_params(range_test=RangeTest(6, 32.0)), 20)
  _, clock = control_lib.start(config)
  words = schedules.packed(clock)
  found = []
  for count in range(6):
    words[0] = count
    found.append(float(schedules.learning_rate(words, config.all_cycles)))
  expected = [PEAK * rate for rate in (1 / 32, 1 / 8, 1 / 2, 2, 8, 32)]
  np.testing.assert_allclose(found, expected, rtol=1e-5)


# The estimate is the peak.
FALLING = np.float32([4, 3, 1, 2])
# It is a sixteenth of the peak.
RISING = np.float32([1, 2, 3, 4])


def begun(**changes):
  """Three cycles over 24 steps, the first four of them a test."""
  return make_params(range_test=TEST, **changes)


@pytest.mark.parametrize(
  ('losses', 'ratio', 'scale', 'reason'),
  (
    (RISING, 1 / 16, 1 / 4, 'the peaks are moved'),
    (FALLING, 1.0, 1.0, 'the peaks are kept'),
  ),
  ids=('moved', 'kept'),
)
def test_the_tape_of_a_run_that_begins_with_a_test(
  losses, ratio, scale, reason
):
  # 20 steps remain for three cycles: 7 + 7 + 6. Evaluations of the test are not
  # judged: a loss that is not finite is expected there.
  seen = [(1, NAN, 0.25), (5, 1.0, 0.5), (11, 1.0, 0.5)]
  events, after, steps = replay(begun(), 12, seen, losses=lambda: losses)
  assert story(events) == (
    f'0 start 1 4, 4 range_test 1 {reason}, 4 reset 2 the chain begins anew, '
    '4 start 2 11, 11 reset 3, 11 start 3 18, 18 reset 4 '
    'no evaluation in the cycle: tau is 0, 18 start 4 24, 24 finish 4'
  )
  assert [n for n, _ in steps] == [3] * 4 + [0] * 7 + [1] * 7 + [2] * 6
  assert steps[:4] == [(3, 0.0), (3, 1.0), (3, 2.0), (3, 3.0)]
  [(*_, peak, estimate, found)] = of(
    events, 'range_test', 'peak_value', 'estimate', 'scale'
  )
  assert peak == PEAK
  np.testing.assert_allclose(
    [estimate, found], [PEAK * ratio, scale], rtol=1e-12
  )
  # The other peaks keep their ratios to the first.
  peaks = [PEAK, PEAK + 0.001, PEAK - 0.001]
  begun_at = [peak for _, peak in of(events, 'cycle_start', 'peak_value')]
  expected = [PEAK, *(peak * scale for peak in peaks)]
  np.testing.assert_allclose(begun_at, expected, rtol=1e-12)
  # The model of the test is thrown away, and its chain with it.
  modes = [mode for _, mode in of(events, 'reset', 'mode')]
  assert modes == ['FullReset', 'SoftReset', 'SoftReset']
  control = after.control
  assert (control.chain_start, control.first.metric) == (4, 0.25)


def test_losses_are_asked_for_at_the_end_of_the_test_only():
  asked = []

  def losses():
    asked.append(len(asked))
    return FALLING

  replay(begun(), 12, [(2, 1.0, 0.1), (5, 1.0, 0.1)], losses=losses)
  assert asked == [0]


@pytest.mark.parametrize(
  ('step_hint', 'horizon', 'setting'),
  (
    # With no step remaining, the last cycle of the chain gets one; while the
    # pace is unknown, the first.
    (2, None, 3),
    (2, TimeHorizon(), 1),
    # One step of five.
    (2.5, TimeHorizon(), 1),
  ),
)
def test_a_run_that_is_hardly_longer_than_its_test(step_hint, horizon, setting):
  events, *_ = replay(begun(horizon=horizon), step_hint, {}, until=9)
  found = story(events, without=('evaluation', 'reset', 'range_test'))
  assert found == '0 start 1 4, 4 start 2 5, 5 finish 2'
  assert of(events, 'cycle_start', 'setting')[1:] == [(4, setting)]


def test_the_pace_counts_from_the_test_on():
  """Its evaluations are known where the first cycle is laid out."""
  params = begun(horizon=TimeHorizon(), early_switching=False)
  seen = [(1, 1.0, 0.1, 1.0), (3, 1.0, 0.1, 2.0)]
  events, *_ = replay(params, 30, seen, until=5)
  # Of 60 steps, 56 remain: 19 for the first of three cycles, at 3 + 10 * 2.
  assert of(events, 'cycle_start', 'setting', 'cycle_end')[1:] == [(4, 1, 23)]

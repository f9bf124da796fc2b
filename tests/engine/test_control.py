"""Transitions of small runs, written out whole, and beside a slow twin."""

import math
from functools import partial

import numpy as np
import pytest

from helpers import reference
from helpers.replay import (
  PEAK,
  Still,
  config_of,
  make_params,
  of,
  replay,
  story,
  transitions,
)
from reset_cycles.core.evaluation import Evaluation, Target
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cycle
from reset_cycles.early_switching import (
  AnyOf,
  ChainLossRule,
  NotFinite,
  Progress,
  SmoothedLossRule,
  Verdict,
)
from reset_cycles.engine import control as control_lib
from reset_cycles.engine.state import clock_of, from_words, to_words
from reset_cycles.soft_reset import (
  FULL,
  Cyclic,
  FullReset,
  KeptMomentum,
  SoftReset,
)

NAN, INF = math.nan, math.inf
case = pytest.param


@pytest.mark.parametrize(
  ('seen', 'expected'),
  (
    case({}, '4 start 2 8, 8 start 3 12, 12 finish 3', id='planned'),
    # Abandoned before step 2 of 12: the remaining 10 are 5 + 5. Evaluations
    # count from 1 in each cycle; a rise from one cycle to the next is none.
    case(
      {1: (1.0,), 2: (1.5,), 4: (9.0,), 6: (8.0,), 8: (7.0,), 9: (8.0,)},
      '1 evaluation 1 1, 2 evaluation 1 2, 2 abandon 1 loss rises, '
      '2 start 2 7, 4 evaluation 2 1, 6 evaluation 2 2, 7 start 3 12, '
      '8 evaluation 3 1, 9 evaluation 3 2, 9 abandon 3 loss rises, 9 finish 3',
      id='abandoned',
    ),
    # An evaluation at a boundary counts for the cycle that ends. Although S = 1
    # then, the end was scheduled. The next cycle begins with no loss, and one
    # that is not finite ends it at once.
    case(
      {3: (1.0,), 4: (2.0,), 5: (INF,)},
      '3 evaluation 1 1, 4 evaluation 1 2, 4 start 2 8, 5 evaluation 2 1, '
      '5 abandon 2 loss is not finite, 5 start 3 12, 12 finish 3',
      id='boundary',
    ),
    # A resumed run may have missed some. The first reason counts.
    case(
      {3: (1.0, 2.0, NAN)},
      '3 evaluation 1 1, 3 evaluation 1 2, 3 evaluation 1 3, '
      '3 abandon 1 loss rises, 3 start 2 8, 8 start 3 12, 12 finish 3',
      id='several',
    ),
  ),
)
def test_the_tape_of_a_chain(seen, expected):
  rows = {
    step: [(step, loss, 0.1) for loss in losses]
    for step, losses in seen.items()
  }
  events, after, nominal_steps = replay(make_params(), 6, rows)
  assert story(events, without=('reset',)) == f'0 start 1 4, {expected}'
  assert after.run_is_over and after.reset_plan is None
  assert of(events, 'finish', 'reason') == [
    (len(nominal_steps), 'cycles have run out')
  ]


def test_early_stops_are_counted():
  """Two of three cycles are abandoned; one that ends as planned does not count."""
  seen = {1: 1.0, 2: 1.5, 8: 1.0, 9: 1.5}
  rows = {step: [(step, loss, 0.1)] for step, loss in seen.items()}
  events, after, _ = replay(make_params(), 6, rows)
  counts = [(2, 1), (9, 2)]
  assert of(events, 'abandon', 'num_early_stops') == counts
  assert of(events, 'finish', 'num_early_stops') == [(9, 2)]
  assert after.control.num_early_stops == 2
  events, after, _ = replay(make_params(), 6, {})
  assert of(events, 'finish', 'num_early_stops') == [(12, 0)]


@pytest.mark.parametrize('late', (3, 4))
def test_an_evaluation_of_an_earlier_cycle_is_not_judged(late):
  """It comes in after the reset before which it was made."""
  seen = {5: [(late, NAN, 0.1)], 6: [(6, 1.0, 0.1)]}
  events, *_ = replay(make_params(), 6, seen)
  assert story(events, without=('reset',)) == (
    '0 start 1 4, 4 start 2 8, 5 evaluation 2 0, 6 evaluation 2 1, '
    '8 start 3 12, 12 finish 3'
  )
  # One before the first step is the first cycle's.
  events, *_ = replay(make_params(), 6, [(0, 1.0, 0.1)], until=1)
  assert of(events, 'evaluation', 'evaluation') == [(0, 1)]


def test_an_evaluation_in_full():
  events, _, _ = replay(make_params(), 6, [(2, 1.0, 0.2), (3, 1.625, 0.25)])
  assert events[2] == {
    'global_step': 3,
    'event': 'evaluation',
    'cycle': 1,
    'evaluation': 2,
    'loss': 1.625,
    'smoothed_loss': 1.625,
    'derivative': 0.625,
    'case1': 1,
    'case2': 0,
    'stopping': 1,
    'metric': 0.25,
    'metric_step': 3,
  }


def test_a_further_cycle_after_one_that_was_abandoned_has_half_of_its_rate():
  """And the length of the last one, whatever the horizon was."""
  seen = [(9, NAN, 0.1), (14, 1.0, 0.1), (15, 2.0, 0.1), (19, NAN, 0.1)]
  events, after, _ = replay(make_params(repeat=True), 6, seen, 30)
  names = ('setting', 'cycle_end', 'rate_factor', 'peak_value')
  assert of(events, 'cycle_start', *names)[2:] == [
    (start, 3, end, scale, (PEAK - 0.001) * scale)
    for start, end, scale in (
      (8, 12, 1.0),
      (9, 13, 0.5),
      (13, 17, 0.5),
      (15, 19, 0.25),
      (19, 23, 0.125),
      (23, 27, 0.125),
      (27, 31, 0.125),
    )
  ]
  assert after.control.planned_end == 31


@pytest.mark.parametrize(
  ('peaks', 'scales'),
  (
    # 2^-126 is the smallest number that a float32 has in full.
    case((2.0**-124,), [1.0, 0.5, 0.25, 0.25], id='the smallest'),
    case((1.999 * 2.0**-125,), [1.0, 0.5, 0.5, 0.5], id='below it'),
    case((2.0**-125, 1.0), [1.0, 0.5, 0.5], id='of any cycle'),
  ),
)
def test_a_rate_is_not_halved_until_it_vanishes(peaks, scales):
  cycles = tuple(Cycle(peak, warmup_factor=0.0) for peak in peaks)
  params = make_params(cycles=cycles, repeat=True)
  seen = [(step, NAN, 0.1) for step in (1, 2, 3)]
  events, after, _ = replay(params, 6, seen, 4)
  starts = of(events, 'cycle_start', 'rate_factor')
  assert [scale for _, scale in starts[len(peaks) - 1 :]] == scales
  assert clock_of(after.control, config_of(params, 6)).peak > 0


# A timed run: its cycles wait, and move with the horizon.

UNKNOWN = 'no evaluation in the cycle: tau is 0'
ANEW = 'the chain begins anew'
REGULAR = tuple(range(1, 200, 10))


def timed(lengths, seen, hint=60, losses=(), metrics=(), until=260, **changes):
  """A run of 2 * hint steps, evaluated before these.

  Some have other losses than 1, and other metrics than .1; the target is 1.
  """
  changes = {'horizon': Still(), 'early_switching': False, **changes}
  params = make_params(lengths=lengths, **changes)
  losses, metrics = dict(losses), dict(metrics)
  rows = [(n, losses.get(n, 1.0), metrics.get(n, 0.1)) for n in seen]
  return replay(params, hint, rows, until=until)


judged = partial(timed, early_switching=True)


@pytest.mark.parametrize(
  ('run', 'expected'),
  (
    # Laid over all steps until the second evaluation; then a third of 120 each,
    # and the evaluations at 41 and 81 are the nearest.
    case(
      partial(timed, (1.0, 1.0, 1.0), REGULAR),
      '11 clock 1 41, 41 reset 2, 41 start 2 81, 81 reset 3, '
      '81 start 3 120, 120 wait 3 130, 121 finish 3',
      id='planned',
    ),
    # 15 steps would be too few, 2 / 7 of 120 are 35. (35 - 11) / 10 is nearest
    # to 2. After 31, 89 remain.
    case(
      partial(timed, (1.0, 2.0, 5.0), REGULAR),
      '11 clock 1 31, 31 reset 2, 31 start 2 120, 120 wait 2 130, 121 finish 2',
      id='skipped',
    ),
    # Of 100, half is 5 evaluations, and after 51 too little remains for another.
    case(
      partial(timed, (1.0, 1.0), (1, 21, 41, 61, 81, 101), hint=50),
      '21 clock 1 100, 100 wait 1 120, 101 finish 1',
      id='no room for another',
    ),
    # After 90, exactly three intervals remain: room enough.
    case(
      partial(timed, (3.0, 1.0), range(10, 130, 10)),
      '20 clock 1 90, 90 reset 2, 90 start 2 120, 120 finish 2',
      id='room for another',
    ),
    # An end that was not evaluated is waited for as long as an interval.
    case(
      partial(timed, (1.0, 1.0), (1, 11, 21)),
      '11 clock 1 61, 61 wait 1 71, 71 reset 2, 71 start 2 120, '
      '120 wait 2 130, 130 finish 2',
      id='missing',
    ),
    # Two steps before the end are near enough, a twentieth of 40; three are not.
    case(
      partial(timed, (1.0, 1.0), (1, 41, 81, 121, 161, 199), hint=200),
      '41 clock 1 201, 201 reset 2, 201 start 2 400',
      id='nearly at the end',
    ),
    case(
      partial(timed, (1.0, 1.0), (1, 41, 81, 121, 161, 198, 238), hint=200),
      '41 clock 1 201, 201 wait 1 241, 238 reset 2, 238 start 2 400',
      id='not so near',
    ),
    # The first interval, 9, leads to 10 + 3 * 9. The next one is 10: the median
    # of both leads to 20 + 2 * 9.5, and that of three to 30 + 10.
    case(
      partial(timed, (1.0, 1.0, 1.0), (1, *range(10, 130, 10))),
      '10 clock 1 37, 20 clock 1 39, 30 clock 1 40, 40 reset 2, '
      '40 start 2 80, 80 reset 3, 80 start 3 120, 120 finish 3',
      id='a first interval that is shorter',
    ),
    # 5 + 2 * 4 is 13, and of the 3 steps from 10 on no interval is left.
    case(
      partial(timed, (1.0, 2.0), (1, *range(5, 45, 5)), hint=20),
      '5 clock 1 13, 10 clock 1 15, 15 reset 2, 15 start 2 40, 40 finish 2',
      id='a short cycle',
    ),
    # The evaluations move by 5. At 46 another interval of 15 would lead to the
    # end, 61; at 56 one of 10 leads to 66.
    case(
      partial(timed, (1.0, 1.0), (1, 11, 21, 31, *range(46, 136, 10))),
      '11 clock 1 61, 56 clock 1 66, 66 reset 2, 66 start 2 120, '
      '120 wait 2 135, 126 finish 2',
      id='evaluations that move',
    ),
    # From 58 an interval of 7 would lead past 61; from 51 one of 10 leads to it.
    case(
      partial(timed, (1.0, 1.0), (*range(1, 61, 10), 58, *range(61, 125, 10))),
      '11 clock 1 61, 61 reset 2, 61 start 2 120, 120 wait 2 130, 121 finish 2',
      id='an extra evaluation',
    ),
    # While no interval is known nothing is waited for, and the first step says
    # nothing of the model. A further cycle is as long as planned.
    case(
      partial(timed, (1.0,), (1,), repeat=True, until=130),
      f'120 reset 2 {UNKNOWN}, 120 start 2 240',
      id='no interval',
    ),
    case(
      partial(timed, (1.0,), (2,), repeat=True, until=130),
      '120 reset 2, 120 start 2 240',
      id='the second step',
    ),
    # What fails begins the chain anew: 99 steps for three cycles.
    case(
      partial(judged, (1.0, 1.0, 1.0), REGULAR[:3], losses={21: NAN}, until=22),
      f'11 clock 1 41, 21 abandon 1 loss is not finite, 21 reset 2 {ANEW}, '
      '21 start 2 51',
      id='failed',
    ),
    # Also where it ends, and is not waited for: a third of 79 is too
    # little, and a half is 40.
    case(
      partial(
        timed, (1.0, 1.0, 1.0), (1, 11, 21, 31), losses={31: NAN}, until=42
      ),
      f'11 clock 1 41, 41 reset 2 {ANEW}, 41 start 2 81',
      id='failed at its end',
    ),
    # With three intervals at least.
    case(
      partial(
        judged, (1.0, 2.0, 5.0), REGULAR[:12], losses={111: NAN}, until=112
      ),
      '11 clock 1 31, 31 reset 2, 31 start 2 120, 111 abandon 2 loss is not '
      f'finite, 111 reset 3 {ANEW}, 111 start 3 141',
      id='failed late',
    ),
  ),
)
def test_the_tape_of_a_timed_run(run, expected):
  events, *_ = run()
  assert story(events) == f'{story(events[:1])}, {expected}'
  why = {reason for _, reason in of(events, 'wait', 'reason')}
  assert why <= {'the annealed model has not been evaluated'}
  scales = [scale for _, scale in of(events, 'cycle_start', 'rate_factor')]
  assert scales[-1] == (0.5 if ANEW in expected else 1.0)
  assert ('FullReset' in repr(events)) == (ANEW in expected)


def test_the_clock_goes_on_past_a_cycles_end():
  """Where the rate stays; and without a jump where the cycle is moved."""
  *_, steps = timed((1.0, 1.0), (1, 11, 21))
  # Laid over all, the first cycle has half of the pace; 54.5 remain at 11.
  pace = float(np.float32(54.5 / 50))
  assert [n for n, _ in steps[:72]] == [0] * 71 + [1]
  expected = [t / 2 for t in range(11)] + [5.5 + pace * t for t in range(60)]
  np.testing.assert_allclose([t for _, t in steps[:71]], expected, rtol=1e-12)


@pytest.mark.parametrize(
  ('step', 'loss', 'switches'),
  # At half of 120 steps, later; a NaN at any time.
  ((60, 9, [60]), (61, 9, []), (90, 9, []), (61, NAN, [61])),
)
def test_what_learns_is_abandoned_only_in_the_first_half_of_a_run(
  step, loss, switches
):
  seen = (1, 10, step - 1, step)
  events, *_ = judged((1.0,), seen, losses={step: loss}, until=step + 1)
  assert [step for step, *_ in of(events, 'abandon')] == switches


def test_a_target_out_of_reach_costs_one_chain():
  """Of 120 steps; .3 of the chain are over at 41, and of the next one at 71.

  Then 49 steps remain, fewer than the run has spent.
  """
  events, *_ = judged((1.0,), REGULAR, switching=Progress(), until=120)
  assert story(events) == (
    f'0 start 1 120, 11 clock 1 120, 41 abandon 1 target out of reach, '
    f'41 reset 2 {ANEW}, 41 start 2 120'
  )


def test_the_event_names_which_of_the_rules_abandons_and_its_numbers():
  """The loss stands still. .2 of a chain of 120 * 4 / 31 evaluations are 3.1.

  At 41, .34 of the chain are over: the fifth evaluation, 4 after the minimum.
  Of this metric so much may still come that progress is silent.
  """
  rules = ChainLossRule(lam=1.0), Progress(gain=1.5)
  seen = (1, 11, 21, 31, 41)
  losses = dict(zip(seen, (8.0, 9.0, 9.0, 9.0, 9.0)))
  events, *_ = judged(
    (1.0,), seen, losses=losses, switching=AnyOf(rules), until=42
  )
  [abandon] = [e for e in events if e['event'] == 'abandon']
  assert abandon == {
    **{'global_step': 41, 'event': 'abandon', 'cycle': 1},
    'reason': 'ChainLossRule: minimum out of reach',
    **{'num_early_stops': 1, 'metric': 0.1, 'metric_step': 41},
    **{'smoothed_loss': 9.0, 'derivative': 0.0, 'case1': 0, 'case2': 1},
    **{'stopping': 1, 'progress': 1 - 0.9, 'best_progress': 1 - 0.9},
    **{'missing': 0.9, 'to_come': 0.08 + 1.5 * (1 - 41 / 120)},
  }
  names = ('case2', 'stopping')
  assert of(events, 'evaluation', *names) == [
    *((step, 0, 0) for step in seen[:-1]),
    (41, 1, 1),
  ]


@pytest.mark.parametrize('best', (0.9999, 1.0, 1.5))
def test_a_run_that_has_been_at_the_target_abandons_no_finite_chain(best):
  """As above; nor does its next chain, after a loss that is not finite."""
  seen, rule = (1, 11, 21, 31, 41, 51), ChainLossRule(lam=1.0)
  for last in (9.0, math.nan):
    losses = dict(zip(seen, (8.0, 9.0, 9.0, 9.0, 9.0, last)))
    given = {'losses': losses, 'metrics': {21: best}, 'switching': rule}
    events, *_ = judged((1.0,), seen, until=52, **given)
    expected = [(51, 'loss is not finite')] if math.isnan(last) else []
    if best < 1:
      expected = [(41, 'minimum out of reach')]
    assert of(events, 'abandon', 'reason')[:1] == expected
  seen = range(1, 62, 5)
  losses = dict.fromkeys(seen, 9.0) | {1: 8.0, 6: 7.0, 11: math.nan}
  given = {'losses': losses, 'metrics': {6: best}, 'switching': rule}
  events, *_ = judged((1.0,), seen, until=62, **given)
  expected = [(11, 'loss is not finite'), (41, 'minimum out of reach')]
  assert of(events, 'abandon', 'reason') == expected[: 1 + (best < 1)]


class Undeclared(NotFinite):
  """Its terms, which are no columns, have names that an event has."""

  def observe(self, state, evaluation, context):
    names = ('loss', 'metric', 'metric_step', 'reason', 'num_early_stops')
    return state, Verdict('why not', dict.fromkeys(names, -1.0))


def test_what_an_event_says_of_itself_is_not_replaced_by_a_rules_terms():
  params = make_params(switching=Undeclared())
  events, *_ = replay(params, 6, [(2, 1.0, 0.25)], until=3)
  names = ('metric', 'metric_step')
  assert of(events, 'evaluation', 'loss', *names) == [(2, 1.0, 0.25, 2)]
  names = (*names, 'reason', 'num_early_stops')
  assert of(events, 'abandon', *names) == [(2, 0.25, 2, 'why not', 1)]


def test_what_is_not_heard_is_no_number_of_an_abandoned_chain():
  """S(t) beside progress is logged at the evaluation, and there alone."""
  seen = (1, 11, 21, 31, 41)
  events, *_ = judged((1.0,), seen, switching=Progress(), until=42)
  evaluation, abandon = events[-4:-2]
  assert evaluation['event'] == 'evaluation' and 'stopping' in evaluation
  assert {*abandon} == {
    *('global_step', 'event', 'cycle', 'reason', 'num_early_stops', 'metric'),
    *('metric_step', 'progress', 'best_progress', 'missing', 'to_come'),
  }


def test_a_chains_loss_is_that_of_all_its_cycles():
  """l = L: the minimum of the first cycle stays that of the second one.

  The chain of 12 steps has an evaluation a step: .25 of it are 3. Without a
  horizon the next cycle follows, and is judged by that minimum, too.
  """
  losses = (8.0, 4.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0)
  seen = [(t, loss, 0.1) for t, loss in enumerate(losses, start=1)]
  rule = ChainLossRule(1.0, 0.25)
  params = make_params(switching=rule, reset=Cyclic())
  events, *_ = replay(params, 6, seen, until=9)
  assert story(events) == (
    '0 start 1 4, 4 reset 2, 4 start 2 8, 6 abandon 2 minimum out of reach, '
    '6 reset 3, 6 start 3 12, 7 abandon 3 minimum out of reach, 7 finish 3'
  )


def test_s_of_t_is_logged_beside_a_rule_that_has_none():
  """In every cycle anew, and not heard; the thesis' lambda is .7."""
  losses = (1.0, 2.0, 2.0, 2.0, 9.0, 9.0)
  seen = [(t, loss, 0.9) for t, loss in enumerate(losses, start=1)]
  for rule in (NotFinite(), Progress()):
    params = make_params(switching=rule, reset=Cyclic())
    events, *_ = replay(params, 6, seen, until=7)
    assert story(events) == '0 start 1 4, 4 reset 2, 4 start 2 8'
    found = of(events, 'evaluation', 'smoothed_loss', 'derivative', 'stopping')
    np.testing.assert_allclose(
      found,
      [
        (1, 1.0, 0.0, 0),
        (2, 1.7, 0.7, 1),
        (3, 1.91, 0.21, 1),
        (4, 1.973, 0.063, 1),
        (5, 9.0, 0.0, 0),
        (6, 9.0, 0.0, 0),
      ],
      rtol=1e-12,
      atol=1e-12,
    )


@pytest.mark.parametrize('seed', range(40))
def test_the_model_of_a_runs_end_comes_from_at_least_half_of_it(seed):
  """Whatever the evaluations, as long as they are finite."""
  rng = np.random.default_rng(seed)
  seen = np.unique(rng.integers(1, 120, 40)).tolist()
  losses = dict(zip(seen, rng.uniform(0.1, 9, len(seen)).tolist()))
  rules = (
    SmoothedLossRule(eps1=1e-3, m=1, k=1),
    Progress(margin=0.0, gain=0.0),
    ChainLossRule(lam=1.0, k=0.01),
  )
  rule = rules[seed % 3]
  events, *_ = judged((1.0,), seen, losses=losses, switching=rule, until=120)
  begun = [step for step, *_ in of(events, 'abandon')]
  assert begun and max(begun) <= 60


def idle_steps(stages, steps, evaluated):
  """Of each stage its first end, and the steps past the end of their cycle.

  The rate is 0 in these steps. The settings are those of a loop: cycles of 1 : 2 : 4 : 8 and no budget.
  """
  lengths = (1.0, 2.0, 4.0, 8.0)
  params = make_params(lengths=lengths, horizon=Still(), early_switching=False)
  config = config_of(params, steps // 2)
  control, ends, counts = control_lib.start(config), [], []
  seen = {step: [Evaluation(step, 1.0, 0.1)] for step in evaluated}
  for first in range(0, stages * steps, steps):
    if first:  # the last evaluation of a stage ends no cycle
      given = control, seen.pop(first, []), config
      control, *_ = control_lib.taken_in(*given)
      control = control_lib.next_stage(control, first, config)
    ends.append(control.end)
    counts.append(0)
    for step in range(first, first + steps):
      given = control, seen.get(step, []), step, config, lambda: True
      control = control_lib.transition(*given).control
      counts[-1] += step >= control.end
  return ends, counts


@pytest.mark.parametrize(
  ('evaluated', 'ends'),
  (
    case([1, *range(100, 12090, 100)], [4600, 8600], id='of the run'),
    case(
      [1, *(s + i for s in (0, 4030, 8060) for i in range(100, 4030, 100))],
      [4600, 8630],
      id='of each stage',
    ),
    case(
      [1, *range(100, 12090, 100), 4030, 8060],
      [4630, 8660],
      id='and after each stage',
    ),
  ),
)
def test_stages_that_do_not_begin_where_an_evaluation_is_due(evaluated, ends):
  """4,030 steps, evaluated every 100: a cycle ends where it is evaluated.

  Two of 14 parts of a stage are 576 steps, and its first cycle ends at a number
  of hundreds after the last evaluation. Where that is not the next ones, the
  evaluations in the stage move the end: no step is idle.
  """
  assert idle_steps(3, 4030, set(evaluated)) == ([4030, *ends], [0, 0, 0])


@pytest.mark.parametrize('unknown', (NAN, -INF))
def test_the_way_begins_at_the_first_metric_that_is_finite(unknown):
  """From -2.5 after step 2, of 240, to -.5: half of the way is missing."""
  config = config_of(make_params(2), 120, Target('m', -0.5, True))
  metrics = {1: unknown, 2: -2.5, 100: -1.5}
  seen = {step: [(step, 2.0, metric)] for step, metric in metrics.items()}
  *_, after = transitions(config, seen, (1, 2, 100, 120))
  assert after.reset_plan.tau == 0.5
  assert not [e for e in after.events if e['event'] == 'warning']


@pytest.mark.parametrize(
  ('step', 'seen_as'),
  ((1, 1), (2, 1), (3, 2**31 - 1), (0, 0)),
)
def test_the_first_metric_of_a_run_is_late_or_not_in_all_of_its_stages(
  step, seen_as
):
  """A hundredth of 240 steps is 2.4; of a stage of 24,000 it would be 240."""
  config = config_of(make_params(1), 120)
  [after] = transitions(config, {step: [(step, 2.0, 0.25)]}, [step])
  longer = config_of(make_params(1), 12_000)
  control = control_lib.next_stage(after.control, 240, longer)
  assert control.first[:3] == (seen_as, 2.0, 0.25)
  untrained = control.first.untrained_metric(control.planned_end)
  np.testing.assert_equal(untrained, NAN if step == 3 else 0.25)


class Moved:
  """A horizon at a given step, from the second evaluation on.

  The step is the budget; evaluations come at as many seconds as steps.
  """

  def steps_to_come(self, intervals, seconds_left):
    return int(seconds_left) if intervals.most_steps else 0


def moved(lengths, every, at, hint=60, last=0, **changes):
  """A run with an evaluation every so many steps, and the horizons at some."""
  changes = {'horizon': Moved(), 'early_switching': False, **changes}
  params = make_params(lengths=lengths, **changes)
  config = config_of(params, hint, budget=float(hint * 2))
  steps = sorted({*range(1, last, every), *at})
  rows, horizon = [], 2 * hint
  for step in steps:
    horizon = at.get(step, horizon)
    seconds = step - (horizon - 2 * hint)
    # A duration of 0 or less is no interval, but its horizon counts.
    rows.append((step, 1.0, 0.1, float(seconds)))
  return replay(config, hint, rows, until=steps[-1] + 1)


@pytest.mark.parametrize(
  ('lengths', 'every', 'at', 'ends'),
  (
    # In the first three intervals the chain is laid out anew. Later, at 51,
    # 10.9 and 60 nominal steps share 189: the first has 29.07, or 30.
    case((1.0, 1.0), 10, {21: 240}, [(11, 61), (21, 121)], id='early'),
    case((1.0, 1.0), 10, {51: 240}, [(11, 61), (51, 81)], id='later'),
    # Three intervals are over at 30: 33.8 and 60 nominal steps share 210.
    case((1.0, 1.0), 10, {30: 240}, [(11, 61), (30, 110)], id='third'),
    # The last cycle lasts up to the horizon.
    case((1.0,), 10, {21: 240}, [(11, 120), (21, 240)], id='last'),
    # Where no three intervals are left, so does any.
    case((1.0, 1.0), 10, {21: 30}, [(11, 61), (21, 30)], id='near'),
    # A horizon that is over moves nothing.
    case((1.0, 1.0), 10, {21: 21, 22: 5}, [(11, 61)], id='over'),
    # Nominal step 197.8 of 200 at 199: 2.2 of 202.2 are 1.8 of 161 steps. So
    # near an end, another interval would put it off again and again.
    case((1.0, 1.0), 40, {199: 360}, [(41, 201), (199, 201)], id='at the end'),
    # Laid out anew, it is three intervals long, and ends just after one.
    case((1.0, 1.0), 40, {119: 240}, [(41, 201), (119, 120)], id='just long'),
    # 2.7 of 241 are 3 steps, more than a twentieth of 40.
    case((1.0, 1.0), 40, {199: 440}, [(41, 201), (199, 239)], id='not so near'),
  ),
)
def test_ends_of_cycles_under_a_horizon_that_moves(lengths, every, at, ends):
  """Steps are planned for twelve intervals, and for ten of the long ones."""
  hint = {10: 60, 40: 200}[every]
  events, after, _ = moved(lengths, every, at, hint, max(at))
  assert of(events, 'clock', 'cycle_end') == ends
  assert len(of(events, 'cycle_start')) == 1
  assert after.control.planned_end == list(at.values())[-1]


def test_a_full_reset_does_not_lead_back_to_the_first_cycle():
  """Although it begins a chain, and the horizon moves just after it."""
  changes = {'reset': FullReset(), 'hint': 60, 'last': 80}
  events, *_ = moved((1.0, 1.0), 10, {81: 200}, **changes)
  assert of(events, 'reset', 'reset') == [(61, 'FullReset')]
  assert of(events, 'clock', 'setting', 'cycle_end') == [
    (11, 1, 61),
    (81, 2, 200),
  ]


def test_tau_fades_by_the_run_that_was_planned():
  """A cycle repeated after it makes the run longer, and is not counted."""
  reset = SoftReset(fade=0.5)
  events, *_ = timed((1.0,), (2,), repeat=True, reset=reset, until=121)
  assert of(events, 'cycle_start', 'cycle_end') == [(0, 120), (120, 240)]
  [(_, tau)] = of(events, 'reset', 'tau')
  assert tau == pytest.approx(0.5 * (1 - 0.1 / 1.0), abs=1e-15)


@pytest.mark.parametrize(
  ('rest', 'end'),
  # One of 80 planned steps is 180 of 541: 1.7 of them fill 300 steps. 157 of
  # 230 are 1.5. In fewer than three intervals, it is as long as planned.
  ((300, 391), (230, 471), (30, 271), (29, 321), (-5, 321)),
)
def test_further_cycles_fill_the_rest(rest, end):
  at = {241: 241 + rest}
  events, after, _ = moved((1.0,) * 3, 10, at, 120, 240, repeat=True)
  found = of(events, 'cycle_start', 'cycle_end')
  assert found == [(0, 240), (81, 161), (161, 240), (241, end)]
  assert after.control.planned_end == max(241 + rest, end)


def test_the_step_before_which_to_decide_again():
  config = config_of(make_params(2, horizon=Still(), early_switching=False), 60)
  seen = {step: [(step, 1.0, 0.1)] for step in (1, 11, 21)}
  found = transitions(config, seen, (1, 11, 21, 61, 62, 71, 72))
  assert [after.due for after in found] == [120, 61, 61, 71, 71, 120, 120]
  resets = [after.reset_plan is not None for after in found]
  assert resets == [False] * 5 + [True, False]


def test_a_cycle_that_waits_is_an_event_once():
  """Also where a process begins at its end, or an early evaluation is late.

  The next cycle is waited for anew.
  """
  config = config_of(make_params(2, horizon=Still(), early_switching=False), 60)
  seen = {step: [(step, 1.0, 0.1)] for step in (1, 11, 21)}
  like, waits = control_lib.start(config), []
  control = like
  for step in (1, 11, 21, 61, 61, 61, 62, 71, 120, 120):
    control = from_words(to_words(control), like)
    new = [Evaluation(*row) for row in seen.pop(step, ())]
    if waits.count(61) == 1 and control.last.step == 21:
      new = [Evaluation(31, 1.0, 0.1)]  # seen at the end
    given = control, new, step, config, lambda: True
    after = control_lib.transition(*given)
    control = after.control
    waits += [step for e in after.events if e['event'] == 'wait']
  assert waits == [61, 120]


# What a reset does, and what is written of it.

BROKEN = 'the model is not finite'


def reset_at(step, seen, is_finite=True, target=(0.8, True), **changes):
  """The plan and the event of a run's reset before a step."""
  config = config_of(make_params(**changes), 6, Target('m', *target))
  [after] = transitions(config, {step: seen}, [step], lambda: is_finite)
  [event] = [event for event in after.events if event['event'] == 'reset']
  return after.reset_plan, event


@pytest.mark.parametrize(
  ('mode', 'seen', 'is_finite', 'plan', 'note'),
  (
    (SoftReset(), (1.0, 0.6), True, (0.25, 0.875, True), ''),
    (SoftReset(alpha=1.0), (1.0, 0.6), True, (0.25, 0.75, True), ''),
    (SoftReset(), (1.0, 0.9), True, (0.0, 1.0, True), ''),
    (SoftReset(), None, True, (0.0, 1.0, True), UNKNOWN),
    (KeptMomentum(), (1.0, 0.6), True, (1.0, 1.0, True), ''),
    (Cyclic(), (1.0, 0.6), True, (0.0, 1.0, True), ''),
    (FullReset(), (1.0, 0.6), True, FULL, ''),
    (FullReset(), None, True, FULL, ''),
    (SoftReset(), (1.0, NAN), True, FULL, BROKEN),
    (SoftReset(), (INF, 0.8), True, FULL, BROKEN),
    (SoftReset(), (1.0, 0.6), False, FULL, BROKEN),
    (Cyclic(), (NAN, 0.6), True, FULL, BROKEN),
    (Cyclic(), None, False, FULL, BROKEN),
    (KeptMomentum(), (1.0, NAN), True, FULL, BROKEN),
  ),
  ids=repr,
)
def test_the_plan_of_a_reset(mode, seen, is_finite, plan, note):
  rows = [(1, *seen)] if seen else []
  found, event = reset_at(4, rows, is_finite, reset=mode, early_switching=False)
  np.testing.assert_allclose(tuple(found), tuple(plan), atol=1e-15)
  assert (event['note'], event['tau']) == (note, found.tau)
  name = 'FullReset' if plan == FULL else type(mode).__name__
  assert (event['reset'], event['reason']) == (name, 'scheduled')


def test_what_is_written_of_a_reset():
  _, event = reset_at(3, [(2, 1.0, 0.6), (3, 9, 0.7)])
  assert event == {
    'event': 'reset',
    'cycle': 2,
    'reason': 'early',
    'reset': 'SoftReset',
    'tau': 1 - 0.7 / 0.8,
    'alpha': 0.5,
    'metric': 0.7,
    'metric_step': 3,
    'note': '',
  }
  _, event = reset_at(4, [], reset=Cyclic())
  assert (event['reason'], event['alpha']) == ('scheduled', '')
  # Abandoned when its steps are over.
  _, event = reset_at(4, [(4, NAN, 0.7)], switching=Progress())
  assert event['reason'] == 'early'


def test_tau_is_of_the_first_metric_even_where_that_does_not_serve():
  seen = [(1, 1.0, NAN), (2, 1.0, 0.5), (4, 1.0, 0.3)]
  plan, _ = reset_at(4, seen, target=(0.1, False))
  assert plan.tau == pytest.approx(1 - 0.1 / 0.3, abs=1e-15)


def test_the_model_is_looked_at_only_where_a_reset_depends_on_it():
  def never():
    raise AssertionError

  seen = {2: [(2, 1.0, 0.1)], 4: [(4, NAN, 0.1)]}
  found = transitions(config_of(make_params(), 6), seen, (2, 3, 4), never)
  assert [after.reset_plan for after in found] == [None, None, FULL]


def test_a_verdict_on_the_chain_is_heard_at_a_cycles_end():
  """The evaluation for which a cycle waits may be the only one of it."""
  rule = Progress(min_share=0.4)
  events, *_ = judged((1.0,) * 3, (1, 11, 51), switching=rule, until=52)
  # The horizon is put off: three intervals of 25 steps are 75.
  assert story(events).endswith(
    f' 51 abandon 1 target out of reach, 51 reset 2 {ANEW}, 51 start 2 126'
  )


@pytest.mark.parametrize(
  ('mode', 'is_finite', 'chain_start'),
  (
    (FullReset(), True, 8),
    (Cyclic(), False, 8),  # a fresh model takes the place of a broken one
    (Cyclic(), True, 0),
    # Nothing is kept of the parameters, but the moments are.
    (KeptMomentum(), True, 0),
    (SoftReset(), True, 0),
  ),
  ids=repr,
)
def test_only_a_full_reset_begins_a_new_chain(mode, is_finite, chain_start):
  rule = Progress(margin=0.0, gain=1.0)  # expects the rest of the chain, 1 - f
  params = make_params(
    2, (2.0, 1.0), switching=rule, early_switching=False, reset=mode
  )
  config = config_of(params, 6)
  seen = {step: [(step, 1.0, 0.0)] for step in (3, 6)}
  *before, after = transitions(config, seen, (3, 6, 8), lambda: is_finite)
  events = [event for one in before for event in one.events]
  assert [e['to_come'] for e in events if 'to_come' in e] == [9 / 12, 6 / 12]
  control = after.control
  assert (control.start, control.chain_start) == (8, chain_start)
  assert after.reset_plan.tau == (
    0.0 if mode == Cyclic() and is_finite else 1.0
  )
  if not chain_start:
    assert control.switching.progress == 0
    return
  assert control.switching == Progress.initial
  # The chain lasts up to the horizon, and at least to the cycle's end, 12.
  for planned_end, share in ((16, 2 / 8), (12, 2 / 4), (9, 2 / 4)):
    moved = control._replace(planned_end=planned_end)
    _, verdict, _ = control_lib.observe(moved, Evaluation(10, 1.0, 0.1), config)
    assert verdict.terms['to_come'] == 1 - share


def test_as_many_repetitions_as_are_long_enough():
  """The last cycle, 6 of 120 nominal steps, would have 16 of 320.

  Three intervals are 30: of the 100 steps that come in at 220 there is room for
  three repetitions, which end at the 33rd, moved to the nearest evaluation. Of
  the 70 at 250 there is room for two, of 35 each, moved to the even tens.
  """
  at = {step: 220 for step in range(120, 220, 10)}
  at |= {step: 320 for step in range(220, 320, 10)}
  events, *_ = moved((19.0, 1.0), 10, at, last=112, repeat=True)
  assert of(events, 'cycle_start', 'setting', 'cycle_end') == [
    (0, 1, 120),
    (120, 2, 220),
    (220, 2, 250),
    (250, 2, 290),
    (290, 2, 320),
  ]


@pytest.mark.parametrize(
  ('horizon', 'ends'),
  ((25, [(11, 61), (24, 25)]), (24, [(11, 61)]), (23, [(11, 61)])),
)
def test_a_horizon_that_is_over_when_its_evaluation_comes_in(horizon, ends):
  """The evaluation of step 21, seen at 24, says so; the cycle keeps its end."""
  params = make_params(
    lengths=(1.0, 1.0), horizon=Moved(), early_switching=False
  )
  config = config_of(params, 60, budget=120.0)
  seen = {step: [(step, 1.0, 0.1, float(step))] for step in (1, 11)}
  seen[24] = [(21, 1.0, 0.1, 21.0 - (horizon - 120))]
  events, *_ = replay(config, 60, seen, until=25)
  assert of(events, 'clock', 'cycle_end') == ends


# Beside the slow twin.


def random_run(seed):
  """A configuration, its step_hint, evaluations, first peak."""
  rng = np.random.default_rng(seed)
  is_timed = bool(rng.random() < 0.5)
  slack, margin = rng.uniform(0, 1, 2).tolist()
  params = make_params(
    lengths=rng.choice([0.5, 1.0, 2.0], rng.integers(1, 6)).tolist(),
    budget_factor=float(rng.choice([1.0, 1.5, 2.0])),
    switching=SmoothedLossRule(
      lam=float(rng.uniform(0.3, 1.0)),
      eps1=float(rng.uniform(0.02, 0.3)),
      eps2=float(rng.uniform(0.0, 0.2)),
      k=int(rng.integers(1, 4)),
      m=int(rng.integers(1, 4)),
    ),
    early_switching=bool(rng.random() < 0.8),
    repeat=bool(rng.random() < 0.5),
    horizon=TimeHorizon(slack, margin) if is_timed else None,
    reset=SoftReset(
      scale=str(rng.choice(['log', 'linear'])),
      fade=float(rng.choice([0.0, 2.0])),
    ),
  )
  steps = np.unique(rng.integers(1, 120, int(rng.integers(3, 26))))
  losses = np.exp(np.cumsum(rng.normal(-0.05, 0.15, len(steps))))
  losses[rng.random(len(steps)) < 0.03] = NAN
  metrics = rng.uniform(0.05, 1.2, len(steps))
  more = np.random.default_rng([seed, 1])
  if more.random() < 0.3:  # the first ones are not finite
    metrics[: more.integers(1, 4)] = more.choice([NAN, INF, -INF])
  seconds = 30 + steps * rng.uniform(0.9, 1.1, len(steps))
  seconds[rng.random(len(steps)) < 0.03] = NAN
  rows = np.stack([losses, metrics, seconds], 1).tolist()
  seen = [(step, *row) for step, row in zip(steps.tolist(), rows)]
  step_hint, rising = int(rng.integers(20, 60)), bool(rng.random() < 0.5)
  target = Target('m', 0.8 if rising else 0.2, rising)
  budget = float(rng.choice([60.0, 100.0, 140.0, NAN]))
  first_peak = float(rng.choice([NAN, 0.0005, 0.02]))
  config = config_of(params, step_hint, target, budget=budget)
  return config, step_hint, seen, first_peak


def comparable(events):
  """What the twin says of events, too."""
  clock = ('cycle_end', 'pace', 'setting')
  names = {
    'evaluation': ('loss', 'smoothed_loss', 'stopping', 'metric_step'),
    'warning': (),
    'cycle_start': clock,
    'clock': clock,
    'reset': ('reason',),
    'abandon': ('reason',),
    'finish': ('reason',),
    'wait': ('cycle_end',),
  }
  always = ('global_step', 'event', 'cycle')
  return [tuple(e.get(n) for n in always + names[e['event']]) for e in events]


# 182 and 250 tell a cycle that is long enough from one that is not.
@pytest.mark.parametrize('seed', (*range(80), 182, 250))
def test_runs_agree_with_their_twin(seed):
  config, step_hint, seen, first_peak = random_run(seed)
  events, _, nominal_steps = replay(
    config, step_hint, seen, until=130, first_peak=first_peak
  )
  params, (_, goal, rising) = config.settings, config.target
  given = params, step_hint, seen, goal, rising, config.budget
  own = None if math.isnan(first_peak) else first_peak
  twin, steps = reference.run(*given, until=130, first_peak=own)
  np.testing.assert_equal(comparable(events), comparable(twin))
  scales = [
    [e['rate_factor'] for e in x if 'rate_factor' in e] for x in (events, twin)
  ]
  np.testing.assert_allclose(*scales, rtol=1e-12)
  taus = [[e['tau'] for e in x if 'tau' in e] for x in (events, twin)]
  assert taus[0] == pytest.approx(taus[1], rel=1e-12, abs=1e-13)
  assert len(nominal_steps) == steps

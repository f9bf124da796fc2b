"""The clock that reads cycles, and its agreement with the static chain."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import reference_run
import shape_examples
from reset_cycles.control import decide as cycle_control
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules import cycle_clock, lr_schedule
from thesis_experiments import EXPERIMENTS

# See test_lr_schedule: half ulps of the peak.
TOLERANCE = 16 * 2.0**-24


def make_params(warmup='linear', decay='cosine', n=3, **changes):
  return ScheduleParams(
    **{
      'warmups': (warmup,) * n,
      'decays': (decay,) * n,
      'alter_lr': (0.0, 0.05, 0.001)[:n],
      'alter_warmup': (0.08, 0.0, 0.3)[:n],
      'lengths': (1.0,) * n,
      **changes,
    }
  )


def clocks_of_run(step_hint, params, evaluations=(), until=None):
  """The run's clock before every step, as one CycleClock of arrays."""
  plan = cycle_control.make_plan(step_hint, params)
  control = cycle_control.start(plan)
  clock, clocks = cycle_control.clock(control, 0, plan), []
  seen_at = {e[0]: cycle_control.Evaluation(*e) for e in evaluations}
  for step in range(until or plan.horizon):
    new = [seen_at[step]] if step in seen_at else []
    if step >= control.cycle_end or new:
      decision = cycle_control.decide(control, new, step, plan)
      control = decision.control
      if decision.action == cycle_control.RESET:
        clock = cycle_control.clock(control, step, plan)
    clocks.append(clock._replace(count=np.int32(step)))
  return cycle_clock.CycleClock(*map(np.asarray, zip(*clocks)))


def cycles(step_hint, params):
  schedules = lr_schedule.cycle_schedules(step_hint, params.hparams, params)
  return schedules, lr_schedule.cycle_lengths(step_hint, params)


def rates_of_optimizer(step_hint, params, clocks):
  """What the transformation multiplies updates with, minus its sign.

  In a compiled loop over single steps, since that is how training reads it.
  """
  transformation = cycle_clock.scale_by_cycle_clock(*cycles(step_hint, params))

  def rate(clock):
    update, _ = transformation.update(jnp.float32(-1), clock)
    return update

  return np.asarray(jax.jit(lambda c: jax.lax.map(rate, c))(clocks))


def rates_of_static_chain(step_hint, params):
  schedule, _, _ = lr_schedule.jax_lr_schedule(
    step_hint, params.hparams, params
  )
  steps = np.arange(lr_schedule.horizon_steps(step_hint, params))
  steps = steps.astype(np.int32)

  def rate(step):
    return jnp.asarray(schedule(step), jnp.float32)

  return np.asarray(jax.jit(lambda s: jax.lax.map(rate, s))(steps))


def planned_clocks(step_hint, params):
  """As clocks_of_run with nothing switched, put together from the lengths."""
  lengths = np.asarray(reference.cycle_lengths(step_hint, params))
  n, starts = lengths.size, np.cumsum(lengths) - lengths
  total = lengths.sum()
  return cycle_clock.CycleClock(
    count=np.arange(total, dtype=np.int32),
    cycle=np.repeat(np.arange(n), lengths).astype(np.int32),
    anchor_step=np.repeat(starts, lengths).astype(np.int32),
    anchor_local=np.zeros(total, np.float32),
    pace=np.ones(total, np.float32),
  )


@functools.cache
def both_rates(step_hint, cycle_lists, budget_factor):
  params = make_params(**dict(cycle_lists), budget_factor=budget_factor)
  clocks = planned_clocks(step_hint, params)
  return (
    rates_of_static_chain(step_hint, params),
    rates_of_optimizer(step_hint, params, clocks),
  )


def assert_same_bits(step_hint, params):
  """Experiments that differ in other fields only are computed once."""
  names = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
  lists = tuple((name, getattr(params, name)) for name in names)
  static, clocked = both_rates(step_hint, lists, params.budget_factor)
  # As integers: the comparison of floats would take 0.0 and -0.0 for equal.
  np.testing.assert_array_equal(static.view(np.int32), clocked.view(np.int32))


@pytest.mark.parametrize('figure', EXPERIMENTS)
@pytest.mark.parametrize('step_hint', (800, 80_000))
def test_every_experiment_agrees_with_the_static_chain(figure, step_hint):
  # 800, and OGBG's real step_hint.
  assert_same_bits(step_hint, EXPERIMENTS[figure])


@pytest.mark.parametrize(
  ('warmup', 'decay'),
  [
    pair
    for pair in itertools.product(
      shape_examples.PLAIN_WARMUPS, shape_examples.PLAIN_DECAYS
    )
    if pair != ('linear', 'cosine')
  ],
)
def test_all_shapes_agree_with_the_static_chain(warmup, decay):
  # Two cycles: the compiler takes a choice of two apart, and may then contract
  # products and sums otherwise than in the static chain.
  params = make_params(warmup, decay, n=2)
  assert_same_bits(350, params)


def pairs(entries):
  """Neighbours of a ring, so that each entry is once the first cycle's."""
  return list(zip(entries[::2], entries[1::2] + entries[:1]))


@pytest.mark.parametrize(
  'decays',
  pairs(shape_examples.DECAYS + shape_examples.WITH_FUNCTIONS),
  ids=lambda pair: '-'.join(shape['name'] for shape in pair),
)
def test_shapes_with_parameters_agree_with_the_static_chain(decays):
  # 233 steps per cycle: the parts of a shape are no whole numbers of steps.
  assert_same_bits(233, make_params(n=2, decays=decays))


@pytest.mark.parametrize('warmups', pairs(shape_examples.WARMUPS))
def test_warmups_with_parameters_agree_with_the_static_chain(warmups):
  assert_same_bits(233, make_params(n=2, warmups=warmups))


def test_clocks_of_a_run_are_those_planned():
  for figure in ('2.1', '3.8a', '3.10'):
    params = EXPERIMENTS[figure]
    run, plan = clocks_of_run(800, params), planned_clocks(800, params)
    for field, a, b in zip(run._fields, run, plan):
      np.testing.assert_array_equal(a, b, err_msg=field)
      assert a.dtype == b.dtype


def test_single_compiled_steps_agree_with_the_static_chain():
  # Called as a train step is, with the clock of the step before.
  params = EXPERIMENTS['3.10']
  transformation = cycle_clock.scale_by_cycle_clock(*cycles(60, params))
  update = jax.jit(lambda clock: transformation.update(jnp.float32(-1), clock))
  static = rates_of_static_chain(60, params)
  clocks = planned_clocks(60, params)
  state = transformation.init(None)
  for step in range(60):
    if step == 30:
      state = cycle_clock.CycleClock(*(leaf[step] for leaf in clocks))
    rate, state = update(state)
    assert int(state.count) == step + 1
    assert np.asarray(rate).view(np.int32) == static[step].view(np.int32)


def test_early_switches_agree_with_twin():
  # Cycle 1 is left at step 90 of 200, cycle 2 before step 110 of 345. Their
  # paces are 1 and 200 / 255, that of the last cycle is 200 / 490.
  params = make_params(switch_eps1=0.05)
  losses = {80: 1.0, 90: 2.0, 100: 1.0, 110: 2.0}
  evaluations = [(step, loss, 0.1) for step, loss in losses.items()]
  tape = reference_run.run(params, 300, evaluations, until=600)
  assert tape.of('cycle_start', 'global_step', 'cycle_end') == [
    (0, 200),
    (90, 345),
    (110, 600),
  ]
  clocks = clocks_of_run(300, params, evaluations)
  rates = rates_of_optimizer(300, params, clocks)
  # Nominal steps up to 200, computed with two roundings, add 2 half ulps to the
  # share of the phase, times the steepest slope of half a cosine, pi / 2, in a
  # warm-up of at least a tenth of the cycle; below twice the tolerance.
  peak = params.hparams.learning_rate + 0.05
  np.testing.assert_allclose(rates, tape.rates, rtol=0, atol=TOLERANCE * peak)


@pytest.mark.parametrize('decay', ('cosine', 'holding_exponential', 'step'))
def test_a_cycle_stays_at_its_final_rate(decay):
  params = make_params('linear', decay, n=1, when_cycles_run_out='hold')
  length = 100
  clocks = clocks_of_run(50, params, until=150)
  rates = rates_of_optimizer(50, params, clocks)
  final = reference.cycle_rate(length, length, params, 0)
  peak = params.hparams.learning_rate
  np.testing.assert_allclose(
    rates[length:], final, rtol=0, atol=TOLERANCE * peak
  )
  assert len(set(rates[length:])) == 1


@pytest.mark.parametrize(
  ('arguments', 'anchor_local', 'pace'),
  (
    # step, cycle, local step, nominal length, end
    ((0, 0, 0.0, 200, 200), 0.0, 1.0),
    ((200, 1, 0.0, 200, 400), 0.0, 1.0),
    ((90, 1, 0.0, 200, 345), 0.0, 200 / 255),
    ((90, 1, 0.0, 200, 190), 0.0, 2.0),
    ((599, 2, 0.0, 200, 600), 0.0, 200.0),
    ((50, 0, 50.0, 200, 350), 50.0, 0.5),
    ((50, 0, 25.5, 200, 399), 25.5, 0.5),
  ),
)
def test_anchored_clock_by_hand(arguments, anchor_local, pace):
  clock = cycle_clock.anchored_clock(*arguments)
  step, cycle = arguments[:2]
  expected = (step, cycle, step, anchor_local, np.float32(pace))
  assert tuple(clock) == expected
  assert [leaf.dtype for leaf in clock] == ['int32'] * 3 + ['float32'] * 2


@pytest.mark.parametrize('new_end', (150, 250, 1000))
def test_a_new_end_in_mid_cycle_does_not_move_the_rate(new_end):
  params, length = make_params(n=1, budget_factor=1.0), 200
  schedules, lengths = cycles(length, params)

  def rate_at(clock, step):
    clock = clock._replace(count=np.int32(step))
    return np.asarray(
      cycle_clock.clock_learning_rate(clock, schedules, lengths)
    )

  planned = cycle_clock.anchored_clock(0, 0, 0.0, length, length)
  for step in (7, 16, 17, 120):  # in the warm-up of 16 steps and after it
    local = float(cycle_clock.local_step(planned._replace(count=step)))
    moved = cycle_clock.anchored_clock(step, 0, local, length, new_end)
    np.testing.assert_array_equal(rate_at(moved, step), rate_at(planned, step))
    pace = (length - step) / (new_end - step)
    nominal = step + pace * (new_end - 1 - step)
    peak = params.hparams.learning_rate
    np.testing.assert_allclose(
      rate_at(moved, new_end - 1),
      reference.cycle_rate(nominal, length, params, 0),
      rtol=0,
      atol=TOLERANCE * peak,
    )
    np.testing.assert_allclose(
      rate_at(moved, new_end), 0, atol=TOLERANCE * peak
    )


def test_moving_the_clock_compiles_nothing(compilations):
  params = make_params()
  transformation = cycle_clock.scale_by_cycle_clock(*cycles(300, params))
  update = jax.jit(lambda u, clock: transformation.update(u, clock))
  ones = jnp.ones(3)
  with compilations() as first:
    _, clock = update(ones, transformation.init(None))
  assert len(first) == 1
  moves = (
    (1, 0, 1.0, 200, 350),
    (90, 1, 0.0, 200, 345),
    (345, 2, 0.0, 200, 600),
    (600, 2, 200.0, 200, 601),
  )
  new_clocks = [
    jax.device_put(cycle_clock.anchored_clock(*move)) for move in moves
  ]
  with compilations() as later:
    for new in new_clocks:
      _, clock = update(ones, new)
      _, clock = update(ones, clock)
  assert later == []


def test_update_scales_each_leaf_in_its_own_type():
  params = make_params('none', 'constant', n=1)
  transformation = cycle_clock.scale_by_cycle_clock(*cycles(10, params))
  updates = {'a': jnp.ones(2), 'b': jnp.full(2, 4.0, jnp.bfloat16)}
  scaled, clock = transformation.update(updates, transformation.init(updates))
  rate = np.float32(params.hparams.learning_rate)
  np.testing.assert_array_equal(scaled['a'], -rate)
  assert scaled['b'].dtype == jnp.bfloat16
  expected = -4 * jnp.asarray(rate, jnp.bfloat16)
  np.testing.assert_array_equal(scaled['b'], expected)
  assert clock == transformation.init(updates)._replace(count=1)


def test_table_rate_follows_the_clock():
  params = make_params(alter_lr=(0.0,) * 3)
  schedules, lengths = cycles(300, params)
  tables = cycle_clock.rate_tables(schedules, lengths)
  assert [table.size for table in tables] == [201, 201, 201]
  peak = params.hparams.learning_rate
  planned = cycle_clock.anchored_clock(200, 1, 0.0, 200, 400)
  for step in (200, 203, 204, 205, 300, 399):
    expected = reference.cycle_rate(step - 200, 200, params, 1)
    found = cycle_clock.table_rate(tables, planned, step)
    assert found == pytest.approx(expected, rel=0, abs=TOLERANCE * peak)
  # At half the pace every other step lies between two entries: read on the
  # straight line between them, which in a warm-up of whole steps is exact.
  slow = cycle_clock.anchored_clock(200, 1, 0.0, 200, 600)
  found = [cycle_clock.table_rate(tables, slow, s) for s in (200, 201, 203)]
  # W = floor(0.02 * 200) = 4.
  expected = np.asarray([0, 0.5, 1.5]) / 4 * peak
  np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * peak)
  assert cycle_clock.table_rate(tables, slow, 10_000) == tables[1][-1]


@pytest.mark.parametrize('value', [math.nan, math.inf, -1e-9])
def test_tables_of_what_is_no_rate_are_refused(value):
  good, bad = np.ones(3), np.array([1.0, value, 0.5])
  cycle_clock.check_tables('decays', [good, np.zeros(2)])
  with pytest.raises(
    ValueError, match=r'decays\[1\] gives .* at step 1 of its'
  ):
    cycle_clock.check_tables('decays', [good, bad])

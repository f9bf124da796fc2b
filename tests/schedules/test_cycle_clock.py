"""The clock that reads cycles, and its agreement with the static chain."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
import reference_run
import shape_examples
from replay import rules_of
from reset_cycles.control import decide
from reset_cycles.control.state import Evaluation
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules import cycle_clock, lr_schedule
from reset_cycles.schedules.cycle import Cycle
from reset_cycles.schedules.cycle_clock import CycleClock
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import HPARAMS
from thesis_experiments import EXPERIMENTS

# See test_lr_schedule: half ulps of the peak.
TOLERANCE = 16 * 2.0**-24
# The shapes of the thesis.
WARMUPS = ('linear', 'cosine', 'exponential', 'none')
DECAYS = (
  'cosine',
  'holding_exponential',
  'holding_linear',
  'step',
  'constant',
)


def make_params(warmup='linear', decay='cosine', n=3, **changes):
  return ScheduleParams(
    **{
      'warmups': (warmup,) * n,
      'decays': (decay,) * n,
      'alter_lr': (0.0, 0.05, 0.001)[:n],
      'alter_warmup': (0.08, 0.0, 0.3)[:n],
      'lengths': (1.0,) * n,
      'policy': 'finish',
      **changes,
    }
  )


def clocks_of_run(step_hint, params, evaluations=(), until=None):
  """The run's clock before every step, as one CycleClock of arrays."""
  rules = rules_of(params, step_hint)
  control, clock, clocks = decide.start(rules), decide.first_clock(rules), []
  seen_at = {e[0]: [Evaluation(*e)] for e in evaluations}
  for step in range(until or control.horizon):
    seen = seen_at.get(step, [])
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    clocks.append(clock._replace(count=np.int32(step)))
  return stacked(clocks)


def stacked(clocks):
  return CycleClock(*map(np.asarray, zip(*clocks)))


def rates_at(clocks, cycles):
  """The rate at each of the clocks.

  In a compiled loop over single steps, since that is how training reads it.
  """

  def rate(clock):
    return cycle_clock.learning_rate(clock, cycles)

  return np.asarray(jax.jit(lambda c: jax.lax.map(rate, c))(clocks))


def rates_of_static_chain(cycles):
  chain, _, _ = lr_schedule.static_chain(cycles)
  steps = np.arange(sum(cycle.steps for cycle in cycles), dtype=np.int32)

  def rate(step):
    return jnp.asarray(chain(step), jnp.float32)

  return np.asarray(jax.jit(lambda s: jax.lax.map(rate, s))(steps))


def bits(rates):
  """As integers: the comparison of floats would take 0.0 and -0.0 for equal."""
  return np.asarray(rates, np.float32).view(np.int32)


def planned_clocks(step_hint, params):
  """As clocks_of_run with nothing switched, put together from the lengths."""
  lengths = np.asarray(reference.cycle_lengths(step_hint, params))
  n, starts = lengths.size, np.cumsum(lengths) - lengths
  total = lengths.sum()
  return CycleClock(
    count=np.arange(total, dtype=np.int32),
    cycle=np.repeat(np.arange(n), lengths).astype(np.int32),
    anchor_step=np.repeat(starts, lengths).astype(np.int32),
    anchor_local=np.zeros(total, np.float32),
    pace=np.ones(total, np.float32),
    scale=np.ones(total, np.float32),
  )


@functools.cache
def both_rates(step_hint, cycle_lists, budget_factor):
  params = make_params(**dict(cycle_lists), budget_factor=budget_factor)
  cycles = lay_out(step_hint, params)
  clocks = planned_clocks(step_hint, params)
  return rates_of_static_chain(cycles), rates_at(clocks, cycles)


def assert_same_bits(step_hint, params):
  """Experiments that differ in other fields only are computed once."""
  names = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
  lists = tuple((name, getattr(params, name)) for name in names)
  static, clocked = both_rates(step_hint, lists, params.budget_factor)
  np.testing.assert_array_equal(bits(static), bits(clocked))


@pytest.mark.parametrize('figure', EXPERIMENTS)
@pytest.mark.parametrize('step_hint', (800, 80_000))
def test_every_experiment_agrees_with_the_static_chain(figure, step_hint):
  # 800, and OGBG's real step_hint.
  assert_same_bits(step_hint, EXPERIMENTS[figure])


@pytest.mark.parametrize(
  ('warmup', 'decay'),
  [
    pair
    for pair in itertools.product(WARMUPS, DECAYS)
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
  # Called as a train step is, on its own.
  params = EXPERIMENTS['3.10']
  cycles = lay_out(60, params)
  rate = jax.jit(lambda clock: cycle_clock.learning_rate(clock, cycles))
  static = rates_of_static_chain(cycles)
  clocks = planned_clocks(60, params)
  for step in range(60):
    found = rate(CycleClock(*(leaf[step] for leaf in clocks)))
    assert bits(found) == bits(static[step])


@pytest.mark.parametrize('scale', (0.5, 0.25, 2.0))
@pytest.mark.parametrize('figure', ('3.3ab', '3.3cd', '3.3ef', '3.10'))
def test_a_scale_that_is_a_power_of_two_is_exact(figure, scale):
  # All rates of these runs are normal numbers, or 0.
  cycles = lay_out(800, EXPERIMENTS[figure])
  clocks = planned_clocks(800, EXPERIMENTS[figure])
  scaled = clocks._replace(scale=np.full_like(clocks.scale, scale))
  static = rates_of_static_chain(cycles)
  np.testing.assert_array_equal(
    bits(rates_at(scaled, cycles)), bits(np.float32(scale) * static)
  )


def test_a_scale_rounds_once():
  # At pace 1 it is one more product, of what the static chain has.
  cycles = lay_out(800, EXPERIMENTS['3.3cd'])
  clocks = planned_clocks(800, EXPERIMENTS['3.3cd'])
  clocks = clocks._replace(scale=np.full_like(clocks.scale, 0.3))
  expected = 0.3 * rates_of_static_chain(cycles).astype(np.float64)
  # The scale itself is rounded, and so is the product.
  np.testing.assert_allclose(
    rates_at(clocks, cycles), expected, rtol=2 * 2.0**-24
  )


def test_early_switches_agree_with_twin():
  # Cycle 1 is left at step 90 of 200, cycle 2 before step 110 of 345. Their
  # paces are 1 and 200 / 255, that of the last cycle is 200 / 490.
  params = make_params(switching={'name': 'thesis', 'eps1': 0.05})
  losses = {80: 1.0, 90: 2.0, 100: 1.0, 110: 2.0}
  evaluations = [(step, loss, 0.1) for step, loss in losses.items()]
  tape = reference_run.run(params, 300, evaluations, until=600)
  assert tape.of('cycle_start', 'global_step', 'cycle_end') == [
    (0, 200),
    (90, 345),
    (110, 600),
  ]
  clocks = clocks_of_run(300, params, evaluations)
  rates = rates_at(clocks, lay_out(300, params))
  # Nominal steps up to 200, computed with two roundings, add 2 half ulps to the
  # share of the phase, times the steepest slope of half a cosine, pi / 2, in a
  # warm-up of at least a tenth of the cycle; below twice the tolerance.
  peak = params.hparams.learning_rate + 0.05
  np.testing.assert_allclose(rates, tape.rates, rtol=0, atol=TOLERANCE * peak)


def test_between_two_nominal_steps_the_rate_is_that_of_the_formula():
  # At half the pace every other step lies between two nominal ones. A drop
  # stays one: at nominal step 4 + 196 / 2 = 102, and at 4 + 3 * 196 / 4 = 151.
  params = make_params('linear', 'step', alter_lr=(0.0,) * 3)
  params = dataclasses.replace(params, alter_warmup=(0.0,) * 3)
  cycles, peak = lay_out(300, params), params.hparams.learning_rate
  assert [cycle.warmup_steps for cycle in cycles] == [4, 4, 4]
  slow = cycle_clock.anchored_clock(200, 1, 0.0, 200, 600)
  steps = (200, 201, 203, 207, 208, 403, 404, 405, 501, 502, 599)
  clocks = stacked([slow._replace(count=np.int32(step)) for step in steps])
  expected = np.asarray(
    [0, 0.125, 0.375, 0.875, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01]
  )
  np.testing.assert_allclose(
    rates_at(clocks, cycles), expected * peak, rtol=0, atol=TOLERANCE * peak
  )


@pytest.mark.parametrize('decay', ('cosine', 'holding_exponential', 'step'))
@pytest.mark.parametrize('scale', (1.0, 0.5))
def test_a_cycle_stays_at_its_final_rate(decay, scale):
  params, length = make_params('linear', decay, n=1), 100
  (cycle,) = lay_out(50, params)
  clock = cycle_clock.anchored_clock(0, 0, 0.0, length, length, scale)
  clocks = [clock._replace(count=np.int32(s)) for s in range(length, 150)]
  clocks.append(clock._replace(count=np.int32(1_000_000)))
  rates = rates_at(stacked(clocks), [cycle])
  final = scale * reference.cycle_rate(length, length, params, 0)
  peak = params.hparams.learning_rate
  np.testing.assert_allclose(rates, final, rtol=0, atol=TOLERANCE * peak)
  assert len(set(rates)) == 1


@pytest.mark.parametrize(
  ('arguments', 'anchor_local', 'pace', 'scale'),
  (
    # step, cycle, local step, nominal steps, end, scale
    ((0, 0, 0.0, 200, 200), 0.0, 1.0, 1.0),
    ((200, 1, 0.0, 200, 400), 0.0, 1.0, 1.0),
    ((90, 1, 0.0, 200, 345), 0.0, 200 / 255, 1.0),
    ((90, 1, 0.0, 200, 190), 0.0, 2.0, 1.0),
    ((599, 2, 0.0, 200, 600), 0.0, 200.0, 1.0),
    ((50, 0, 50.0, 200, 350), 50.0, 0.5, 1.0),
    ((50, 0, 25.5, 200, 399), 25.5, 0.5, 1.0),
    ((90, 1, 0.0, 200, 190, 0.5), 0.0, 2.0, 0.5),
    ((90, 1, 0.1, 200, 190, 0.1), 0.1, 1.999, 0.1),
  ),
)
def test_anchored_clock_by_hand(arguments, anchor_local, pace, scale):
  clock = cycle_clock.anchored_clock(*arguments)
  step, cycle = arguments[:2]
  floats = np.float32([anchor_local, pace, scale])
  assert tuple(clock) == (step, cycle, step, *floats)
  assert [leaf.dtype for leaf in clock] == ['int32'] * 3 + ['float32'] * 3


def test_the_local_step_by_hand():
  clock = cycle_clock.anchored_clock(90, 1, 25.5, 200, 439)  # pace 0.5
  counts = np.asarray([90, 91, 100, 439, 1000], np.int32)
  expected = [25.5, 26.0, 30.5, 200.0, 480.5]
  found = [cycle_clock.local_step_on_host(clock, int(s)) for s in counts]
  assert found == expected
  on_device = jax.jit(
    jax.vmap(lambda count: cycle_clock.local_step(clock._replace(count=count)))
  )
  np.testing.assert_array_equal(on_device(counts), np.float32(expected))


def test_the_local_step_on_the_host_is_in_float64():
  clock = cycle_clock.anchored_clock(0, 0, 0.1, 200, 300)
  found = cycle_clock.local_step_on_host(clock, 299)
  pace = float(np.float32(199.9 / 300))
  assert found == float(np.float32(0.1)) + 299 * pace


def rate_at(clock, step, cycles):
  clock = clock._replace(count=np.int32(step))
  return np.asarray(cycle_clock.learning_rate(clock, cycles))


@pytest.mark.parametrize('scale', (1.0, 0.3))
@pytest.mark.parametrize('new_end', (150, 250, 1000))
def test_a_new_end_in_mid_cycle_does_not_move_the_rate(new_end, scale):
  params, length = make_params(n=1, budget_factor=1.0), 200
  cycles = lay_out(length, params)
  planned = cycle_clock.anchored_clock(0, 0, 0.0, length, length, scale)
  for step in (7, 16, 17, 120):  # in the warm-up of 16 steps and after it
    local = cycle_clock.local_step_on_host(planned, step)
    moved = cycle_clock.anchored_clock(step, 0, local, length, new_end, scale)
    before, after = (rate_at(c, step, cycles) for c in (planned, moved))
    assert bits(before) == bits(after)
    pace = (length - step) / (new_end - step)
    nominal = step + pace * (new_end - 1 - step)
    peak = params.hparams.learning_rate
    np.testing.assert_allclose(
      rate_at(moved, new_end - 1, cycles),
      scale * reference.cycle_rate(nominal, length, params, 0),
      rtol=0,
      atol=TOLERANCE * peak,
    )
    np.testing.assert_allclose(
      rate_at(moved, new_end, cycles), 0, atol=TOLERANCE * peak
    )


def test_many_new_ends_in_one_cycle_do_not_move_the_rate():
  # Where the local step is no float32, it is rounded when it is anchored: once
  # more than where it is not. Half an ulp of a nominal step below 256, times the
  # steepest slope there is: that of a straight warm-up, peak / 16.
  params, length = make_params(n=1, budget_factor=1.0), 200
  cycles, peak = lay_out(length, params), params.hparams.learning_rate
  clock = cycle_clock.anchored_clock(0, 0, 0.0, length, length)
  allowed = TOLERANCE * peak + 2 * 2.0**-17 * peak / 16
  ends = (340, 173, 911, 333, 250, 613, 290, 700)
  for step, end in zip(range(3, 160, 20), ends):
    local = cycle_clock.local_step_on_host(clock, step)
    moved = cycle_clock.anchored_clock(step, 0, local, length, end)
    before, after = (rate_at(c, step, cycles) for c in (clock, moved))
    np.testing.assert_allclose(after, before, rtol=0, atol=allowed)
    expected = reference.cycle_rate(local, length, params, 0)
    np.testing.assert_allclose(after, expected, rtol=0, atol=allowed)
    clock = moved
  end_of_all = rate_at(clock, ends[-1], cycles)
  np.testing.assert_allclose(end_of_all, 0, atol=TOLERANCE * peak)


def test_moving_the_clock_compiles_nothing(compilations):
  cycles = lay_out(300, make_params())
  rate = jax.jit(lambda clock: cycle_clock.learning_rate(clock, cycles))
  with compilations() as first:
    rate(jax.device_put(cycle_clock.anchored_clock(0, 0, 0.0, 200, 200)))
  assert len(first) == 1
  moves = (
    (1, 0, 1.0, 200, 350),
    (90, 1, 40.0, 200, 345),
    (345, 2, 30.0, 200, 600),
    (400, 2, 50.5, 200, 500, 0.5),
    (600, 2, 200.0, 200, 601),
  )
  new_clocks = [
    jax.device_put(cycle_clock.anchored_clock(*move)) for move in moves
  ]
  with compilations() as later:
    rates = [rate(clock) for clock in new_clocks]
  assert later == []
  assert len(set(map(float, rates))) == len(moves)


def test_a_number_in_which_all_cycles_agree_is_a_constant():
  def read(cycle):
    found = cycle_clock.number([0.9, 0.9, 0.9], cycle)
    assert type(found) is float
    return found

  assert jax.jit(read)(1) == np.float32(0.9)
  assert jax.make_jaxpr(read)(1).eqns == []


def test_other_numbers_follow_the_cycle(compilations):
  read = jax.jit(lambda cycle: cycle_clock.number([0.9, 0.5, 0.9], cycle))
  cycles = [jax.device_put(np.int32(i)) for i in (0, 1, 2)]
  read(cycles[0])
  with compilations() as compiled:
    found = [read(cycle) for cycle in cycles]
  assert compiled == []
  assert [leaf.dtype for leaf in found] == ['float32'] * 3
  np.testing.assert_array_equal(found, np.float32([0.9, 0.5, 0.9]))


def with_decay(constant, schedule=None):
  hparams = dataclasses.replace(HPARAMS, weight_decay=constant)
  rate = optax.constant_schedule(1.0)
  return Cycle(10, 0, 1.0, rate, schedule, hparams, 1.0)


def rise(count):
  return 0.5 * count


@pytest.mark.parametrize(
  ('cycles', 'expected'),
  (
    # At nominal steps 3 and 20 of each cycle: the last one is 10.
    ((with_decay(0.1), with_decay(0.3)), ((0.1, 0.1), (0.3, 0.3))),
    ((with_decay(0.1, rise), with_decay(0.1)), ((1.5, 5.0), (0.1, 0.1))),
    ((with_decay(0.2), with_decay(0.1, rise)), ((0.2, 0.2), (1.5, 5.0))),
  ),
)
def test_the_weight_decay_of_each_cycle(cycles, expected):
  read = jax.jit(lambda clock: cycle_clock.weight_decay(clock, cycles))
  for i, values in enumerate(expected):
    clock = cycle_clock.anchored_clock(100, i, 0.0, 10, 110)
    found = [read(clock._replace(count=np.int32(s))) for s in (103, 120)]
    np.testing.assert_array_equal(found, np.float32(values))


def test_the_weight_decay_that_all_cycles_share_is_a_constant():
  cycles = [with_decay(0.1), with_decay(0.1)]

  def read(clock):
    found = cycle_clock.weight_decay(clock, cycles)
    assert type(found) is float
    return found

  clock = cycle_clock.anchored_clock(0, 0, 0.0, 10, 10)
  assert jax.jit(read)(clock) == np.float32(0.1)

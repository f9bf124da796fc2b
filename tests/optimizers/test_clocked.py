"""The optimizers beside their twins, driven by the clock."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from helpers.trees import assert_same
from reset_cycles.core import clock as clock_lib
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.forms import TABLE
from reset_cycles.core.schedules import Constant, Cooldown, Cosine, Cycle
from reset_cycles.engine.train_step import global_norm
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.optimizers.momentum import NadamW
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.optimizers.step import Step

STEPS = 200
CYCLE = Cycle(peak=0.01, warmup_factor=0.1)
CLIPPED = {'grad_clip': 0.5, 'eps': 1e-3}
START = np.float32([1.0, -2.0, 0.5, 3.0, 0.0])


def gradients(count=STEPS, size=5):
  rng = np.random.default_rng(0)
  return rng.normal(size=(count, size)).astype(np.float32) * 0.3


def words(step, cycle, cycles):
  """A clock that starts a cycle at a step."""
  end = step + cycles[cycle].steps
  clock = clock_lib.anchored_clock(step, 0.0, end, cycle, cycles)
  return jnp.asarray(clock_lib.packed(clock))


def begun(cycles):
  """Clock and control of a run that begins; nothing here reads a control."""
  clock = clock_lib.anchored_clock(0, 0.0, cycles[0].steps, 0, cycles)
  return clock_lib.packed(clock), np.zeros(4, np.int32)


def train(optimizer, cycles, grads, start=START, clocks=None):
  """The parameters after each step, and the last state."""
  tx = clocked(optimizer.build, cycles, begun(cycles))
  params = jnp.asarray(start)
  state = jax.jit(tx.init)(params)
  traces = []

  @jax.jit
  def step(params, state, grad):
    traces.append(1)
    updates, state = tx.update(grad, state, params)
    return optax.apply_updates(params, updates), state

  history = []
  for i, grad in enumerate(grads):
    if clocks and i in clocks:
      state = state._replace(clock=clocks[i])
    params, state = step(params, state, grad)
    history.append(np.asarray(params))
  assert len(traces) == 1
  return history, state


@pytest.mark.parametrize('changes', ({}, CLIPPED), ids=('plain', 'clipped'))
@pytest.mark.parametrize('make', (AdamW, NadamW))
def test_adam_agrees_with_its_twin(make, changes):
  """Two cycles of different peaks; Adam's own count goes on."""
  numbers = {'one_minus_beta1': 0.25, 'beta2': 0.9, 'weight_decay': 0.3}
  optimizer = make(**numbers, **changes)
  chain = (CYCLE, Cycle(peak=0.02, warmup_factor=0.0))
  cycles = jax_lr_schedule(STEPS, chain, 1.0).cycles
  clocks = {100: words(100, 1, cycles)}
  history, state = train(optimizer, cycles, gradients(), clocks=clocks)
  assert state.clock[0] == 200
  last = history[-1]
  assert optimizer.gradient_point(state.inner, last) is last
  rates = [
    reference.cycle_rate(t, 100, cycle) for cycle in chain for t in range(100)
  ]
  given = (START, gradients(), rates, optimizer)
  is_ahead = make is NadamW
  expected = reference.adamw(*given, nesterov=is_ahead)
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)
  against = reference.adamw(*given, nesterov=not is_ahead)
  assert np.abs(np.subtract(expected, against)).max() > 1e-3


@pytest.mark.parametrize(
  ('r', 'power', 'changes', 'decay'),
  (
    (0.0, 2.0, {}, Cosine()),
    (0.75, 2.0, CLIPPED, Cooldown(0.3)),
    (0.75, 0.0, {}, Cosine()),
  ),
  ids=('plain', 'clipped', 'by_step_alone'),
)
def test_schedule_free_agrees_with_the_papers_algorithm(
  r, power, changes, decay
):
  """The parameters are x, with weights by the rate of the step."""
  optimizer = ScheduleFreeAdamW(
    weight_decay=0.3, r=r, weight_lr_power=power, **changes
  )
  cycle = Cycle(peak=0.01, warmup_factor=0.1, decay=decay)
  cycles = jax_lr_schedule(STEPS, [cycle], 1.0).cycles
  history, state = train(optimizer, cycles, gradients())
  rates = [reference.cycle_rate(t, STEPS, cycle) for t in range(STEPS)]
  numbers = reference.numbers_in(optimizer)
  twin = reference.schedule_free(START, gradients(), rates, numbers)
  expected = [row.x for row in twin]
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)
  y = optimizer.gradient_point(state.inner, jnp.asarray(history[-1]))
  np.testing.assert_allclose(y, twin[-1].y, rtol=1e-4, atol=1e-5)
  assert state.inner.weight_sum == pytest.approx(twin[-1].weight_sum, rel=1e-5)
  assert state.inner.count == STEPS - 1  # the first rate is 0


def test_schedule_free_keeps_its_average_over_many_steps():
  """Rounding does not pile up in the average."""
  count = 3000
  cycle = Cycle(peak=0.01, warmup_factor=0.0, decay=Cooldown(1e-9))
  grads = gradients(count, 64)
  start = np.random.default_rng(1).normal(size=64).astype(np.float32)
  optimizer = ScheduleFreeAdamW(weight_decay=0.0, r=0.0)
  cycles = jax_lr_schedule(count, [cycle], 1.0).cycles
  history, _ = train(optimizer, cycles, grads, start)
  numbers = reference.numbers_in(optimizer)
  twin = reference.schedule_free(start, grads, [0.01] * count, numbers)
  off = history[-1] - twin[-1].x
  assert np.sqrt(np.mean(off**2)) < 3e-6


@pytest.mark.parametrize('decay', (Cosine(), Cooldown(0.1)), ids=repr)
@pytest.mark.parametrize('r', (0.0, 0.75))
def test_a_wait_changes_nothing(decay, r):
  """At a rate of 0 nothing moves: x, z, nu, sum and count, to the last bit."""
  optimizer = ScheduleFreeAdamW(r=r)
  cycle = Cycle(peak=0.01, warmup_factor=0.1, decay=decay)
  cycles = jax_lr_schedule(100, [cycle, cycle], 1.0).cycles
  grads, wait = gradients(100), 3000
  first, state = train(
    optimizer, cycles, grads, clocks={50: words(50, 1, cycles)}
  )
  waited = np.concatenate([grads[:50], gradients(wait), grads[50:]])
  then, other = train(
    optimizer, cycles, waited, clocks={50 + wait: words(50 + wait, 1, cycles)}
  )
  np.testing.assert_array_equal(then[50 : 50 + wait], [first[49]] * wait)
  np.testing.assert_array_equal(then[50 + wait :], first[50:])
  assert_same(other.inner, state.inner)


def test_the_norm_of_bfloat16_is_summed_in_float32():
  norm = global_norm([jnp.ones(300, jnp.bfloat16)])
  assert norm == pytest.approx(300**0.5, rel=1e-6)


def test_what_a_step_is_told():
  """The rate and the share of the cycle, by the clock; all else at rest."""
  told = []

  def build(step):
    told.append(step)
    return optax.identity()

  cycles = jax_lr_schedule(8, [Cycle(0.5, warmup_factor=0.5)], 1.0).cycles
  tx = clocked(build, cycles, begun(cycles))
  state = tx.init(jnp.ones(1))
  assert told[0] == Step(0.5)  # the peak, before there is a step
  clock = clock_lib.anchored_clock(6, 1.0, 10, 0, cycles)
  clock = clock._replace(count=np.int32(8))  # 1 + 2 * 7 / 4 of 8 steps
  state = state._replace(clock=jnp.asarray(clock_lib.packed(clock)))
  tx.update(jnp.ones(1), state)
  rate, passed = 0.5 * (1 + np.cos(np.pi / 8)) / 2, 4.5 / 8
  assert told[1].rate == pytest.approx(rate, rel=1e-6)
  assert told[1].passed == pytest.approx(passed, rel=1e-6)
  assert told[1].taken == 4.5
  assert told[1].weight_decay == told[1].decay_factor == 1.0
  cycle = dataclasses.replace(cycles[0].cycle, weight_decay=Cooldown(1.0))
  planned = [cycles[0]._replace(cycle=cycle, decay_factor=3.0)]
  clock = clock_lib.packed(clock._replace(decay_factor=3.0))
  state = state._replace(clock=jnp.asarray(clock))
  clocked(build, planned, begun(planned)).update(jnp.ones(1), state)
  assert told[2].weight_decay == pytest.approx(3.5 / 8)
  assert told[2].decay_factor == 3.0


def test_the_steps_of_a_table_fall_on_by_the_plan():
  """By hand, as the fourth root from step 3 on, over two cycles of four steps.

  The second cycle goes on where the first one ended, and a chain begun anew
  begins at 1. Adam's direction of gradients of 1 is 1.
  """
  cycle = Cycle(peak=0.1, warmup_factor=0.0, decay=Constant())
  cycles = jax_lr_schedule(8, [cycle, cycle], 1.0).cycles
  optimizer = Muon(weight_decay=0.0, rest_share=0.5, fall_start=2.0)
  tables = Step(0.0, forms=(TABLE,))
  tx = clocked(optimizer.build, cycles, begun(cycles), tables)
  table = jnp.zeros((1, 1))
  state, update = tx.init(table), jax.jit(tx.update)
  steps = []
  for i in range(11):
    if i in (4, 8):
      clock = words(i, int(i == 4), cycles)
      state = state._replace(clock=clock)
    step, state = update(jnp.ones((1, 1)), state, table)
    steps.append(-float(step[0, 0]))
  numbers = [*range(1, 9), 1, 2, 3]
  expected = [0.05 * (2 / max(t, 2)) ** 0.25 for t in numbers]
  assert expected[8] == 0.05 == pytest.approx(2**0.5 * expected[7])
  np.testing.assert_allclose(steps, expected, rtol=1e-5)

"""The optimizers beside their twins, driven by the clock."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from reset_cycles.core import optimizers, schedules
from reset_cycles.core.cycle import Cosine, Cycle, Hparams
from reset_cycles.core.optimizers import AdamW, ScheduleFreeAdamW
from reset_cycles.parts.optimizers import NadamW
from reset_cycles.parts.shapes import Constant

HPARAMS = Hparams(learning_rate=0.01, warmup_factor=0.1, weight_decay=0.3)
CLIPPED = dataclasses.replace(HPARAMS, grad_clip=0.5, eps=1e-3)
STEPS = 200


def chain_of(*cycles, steps=STEPS):
  return schedules.jax_lr_schedule(steps, cycles, 1.0).cycles


def gradients(count=STEPS, size=5):
  rng = np.random.default_rng(0)
  return rng.normal(size=(count, size)).astype(np.float32) * 0.3


def train(optimizer, cycles, grads, start, clocks=None):
  """What is trained after each step, the state, and each step's number."""
  tx = optimizers.clocked(optimizer, cycles)
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


START = np.float32([1.0, -2.0, 0.5, 3.0, 0.0])


@pytest.mark.parametrize('hparams', (HPARAMS, CLIPPED), ids=('', 'clipped'))
@pytest.mark.parametrize('optimizer', (AdamW(), NadamW()), ids=repr)
def test_adam_agrees_with_its_twin(optimizer, hparams):
  """Two cycles that differ in numbers; Adam's own count goes on."""
  other = dataclasses.replace(hparams, learning_rate=0.02, weight_decay=0.05)
  numbers = [hparams] * 100 + [other] * 100
  cycles = chain_of(Cycle(hparams), Cycle(other))
  clocks = {100: schedules.anchored_clock(100, 1, 0.0, 100, 200)}
  history, state = train(optimizer, cycles, gradients(), START, clocks)
  assert state.clock.count == 200
  last = history[-1]
  assert optimizer.eval_params(state.state, last, hparams) is last
  rates = [
    reference.cycle_rate(t % 100, 100, Cycle(h)) for t, h in enumerate(numbers)
  ]
  decays = [h.weight_decay for h in numbers]
  given = (START, gradients(), rates, hparams, decays)
  is_ahead = optimizer == NadamW()
  expected = reference.adamw(*given, nesterov=is_ahead)
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)
  against = reference.adamw(*given, nesterov=not is_ahead)
  assert np.abs(np.subtract(expected, against)).max() > 1e-3


@pytest.mark.parametrize(
  ('r', 'power', 'hparams'),
  ((0.0, 2.0, HPARAMS), (0.75, 2.0, CLIPPED), (0.75, 0.0, HPARAMS)),
)
def test_schedule_free_agrees_with_the_papers_algorithm(r, power, hparams):
  """y moves in place here; there, it is made of x and z at every step."""
  optimizer = ScheduleFreeAdamW(r=r, weight_lr_power=power)
  cycle = Cycle(hparams)
  cycles = chain_of(cycle)
  history, state = train(optimizer, cycles, gradients(), START)
  rates = [reference.cycle_rate(t, STEPS, cycle) for t in range(STEPS)]
  twin = reference.schedule_free(START, gradients(), rates, hparams, r, power)
  expected = [row.y for row in twin]
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)
  x = optimizer.eval_params(state.state, jnp.asarray(history[-1]), hparams)
  np.testing.assert_allclose(x, twin[-1].x, rtol=1e-4, atol=1e-5)
  assert state.state.weight_sum == pytest.approx(twin[-1].weight_sum, rel=1e-5)


def test_schedule_free_keeps_its_average_over_many_steps():
  """The form in place: rounding does not pile up in the average."""
  count = 3000
  hparams = dataclasses.replace(HPARAMS, weight_decay=0.0, warmup_factor=0.0)
  cycle = Cycle(hparams, decay=Constant())
  grads = gradients(count, 64)
  start = np.random.default_rng(1).normal(size=64).astype(np.float32)
  optimizer = ScheduleFreeAdamW()
  history, state = train(optimizer, chain_of(cycle, steps=count), grads, start)
  twin = reference.schedule_free(start, grads, [0.01] * count, hparams)
  off = history[-1] - twin[-1].y
  assert np.sqrt(np.mean(off**2)) < 3e-6


OTHER = Hparams(None, 0.02, 0.3, 0.7, 0.05, 0.0, eps=1e-3)


def test_numbers_in_which_cycles_differ_are_those_of_the_cycle():
  cycles = chain_of(Cycle(HPARAMS), Cycle(OTHER))
  for i, hparams in enumerate((HPARAMS, OTHER)):
    clock = schedules.anchored_clock(0, i, 0.0, 100, 100)
    clock = clock._replace(count=np.int32(25))
    numbers = jax.jit(lambda c: optimizers.numbers_at(c, cycles))(clock)
    cycle = Cycle(hparams)
    expected = [reference.cycle_rate(25, 100, cycle), hparams.weight_decay]
    expected += [hparams.one_minus_beta1, hparams.beta2, hparams.eps]
    assert numbers.grad_clip is None
    np.testing.assert_allclose(tuple(numbers[:5]), expected, rtol=1e-6)


def test_numbers_in_which_cycles_agree_are_constants():
  cycles = chain_of(Cycle(HPARAMS), Cycle(HPARAMS))
  clock = schedules.anchored_clock(0, 0, 0.0, 100, 100)
  _, *numbers = optimizers.numbers_at(clock, cycles)
  assert numbers == [0.3, HPARAMS.one_minus_beta1, HPARAMS.beta2, 1e-8, None]


def test_a_shaped_weight_decay_reaches_the_step():
  cycle = Cycle(HPARAMS, weight_decay_shape=Cosine())
  history, _ = train(AdamW(), chain_of(cycle), gradients(), START)
  rates = [reference.cycle_rate(t, STEPS, cycle) for t in range(STEPS)]
  decays = [reference.weight_decay(t, STEPS, cycle) for t in range(STEPS)]
  expected = reference.adamw(START, gradients(), rates, HPARAMS, decays)
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)
  assert len(set(decays)) == STEPS


@pytest.mark.parametrize('optimizer', (AdamW(), NadamW(), ScheduleFreeAdamW()))
def test_leaves_of_bfloat16_stay_so(optimizer):
  cycles = chain_of(Cycle(HPARAMS), Cycle(OTHER))  # numbers are traced
  tx = optimizers.clocked(optimizer, cycles)
  params = {'w': jnp.ones(3, jnp.bfloat16), 'b': jnp.ones(2)}
  state = jax.eval_shape(tx.init, params)
  updates, after = jax.eval_shape(tx.update, params, state, params)
  types, before, now = (
    [leaf.dtype for leaf in jax.tree_util.tree_leaves(tree)]
    for tree in (updates, state, after)
  )
  assert types == [jnp.float32, jnp.bfloat16]  # of b and of w
  assert now == before

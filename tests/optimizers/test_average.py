"""Nesterov momentum and the average of the weights, beside slow twins."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.trees import assert_close, assert_same
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.clock import anchored_clock, packed
from reset_cycles.core.devices import Devices
from reset_cycles.core.schedules import Cycle
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA, Averaged
from reset_cycles.optimizers.clocked import ClockedState, clocked
from reset_cycles.optimizers.momentum import Nesterov
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import FullReset, ResetPlan

STEPS = 12
NUMBERS = {'one_minus_beta1': 0.25, 'weight_decay': 0.5}
ADAMW = AdamW(**NUMBERS)
EMA_OF_2 = EMA(ADAMW, decay=0.5)


def params_at_first():
  return {'b': jnp.float32([1.0, -2.0]), 'w': jnp.float32([[0.5, 3.0]])}


def grads_of(step):
  rng = np.random.default_rng(step)
  return jax.tree_util.tree_map(
    lambda p: jnp.asarray(rng.normal(size=p.shape), jnp.float32),
    params_at_first(),
  )


@functools.cache
def trained(optimizer):
  """Parameters and the optimizer's state after each step."""
  cycle = Cycle(peak=0.1, warmup_factor=0.0)
  cycles = jax_lr_schedule(STEPS, [cycle], 1.0).cycles
  clock = packed(anchored_clock(0, 0.0, STEPS, 0, cycles))
  made = clocked(optimizer.build, cycles, (clock, np.zeros(4, np.int32)))
  params, after = params_at_first(), []
  state, update = made.init(params), jax.jit(made.update)
  for step in range(STEPS):
    updates, state = update(grads_of(step), state, params)
    params = optax.apply_updates(params, updates)
    after.append((params, state.inner))
  assert isinstance(state, ClockedState)
  return after


close = functools.partial(assert_close, rtol=2e-6, atol=1e-6)


def test_nesterov_momentum_agrees_with_its_formula():
  params, m = np.array([1.0, -2.0]), np.zeros(2)
  for step, (found, _) in enumerate(trained(Nesterov(**NUMBERS))):
    rate = 0.1 * 0.5 * (1 + np.cos(np.pi * step / STEPS))
    g = np.asarray(grads_of(step)['b'], np.float64)
    m = 0.75 * m + g
    params = params - rate * (0.75 * m + g + 0.5 * params)
    close(found['b'], params)


def test_raw_weights_train_as_the_inner_optimizer_does():
  for (_, state), (params, _) in zip(trained(EMA_OF_2), trained(ADAMW)):
    close(EMA_OF_2.gradient_point(state, None), params)


def test_ema_is_the_mean_of_all_steps_by_their_age():
  raw = [params for params, _ in trained(ADAMW)]
  for count in (1, 2, STEPS):
    average, state = trained(EMA_OF_2)[count - 1]
    weights = [0.5 ** (count - 1 - i) for i in range(count)]
    expected = jax.tree_util.tree_map(
      lambda *steps, w=weights: np.average(np.stack(steps), axis=0, weights=w),
      *raw[:count],
    )
    close(average, expected)
    np.testing.assert_allclose(state.weight_sum, sum(weights), rtol=1e-6)


def reset(optimizer, after, plan):
  """A reset of copies of the parameters and the state, by a model of zeros."""
  params, state = jax.tree_util.tree_map(jnp.copy, after)
  devices = Devices()
  model = devices.place(Model(params, (), state))
  roles = role_in(optimizer.roles(None))
  resets = ModelReset(devices, roles, optimizer.build(Step(0.1)).init, model)
  fresh = jax.tree_util.tree_map(np.zeros_like, jax.device_get(params))
  return resets(model, (fresh, ()), plan)


def test_a_soft_reset_blends_the_average_and_takes_weight_from_it():
  params, state = trained(EMA_OF_2)[-1]
  model, _ = reset(EMA_OF_2, (params, state), ResetPlan(0.25, 0.875, True))
  own = model.opt_state
  for blended, before in (
    (model.params, params),
    (own.z, state.z),
    (own.weight_sum, state.weight_sum),
  ):
    close(blended, jax.tree_util.tree_map(lambda x: 0.75 * x, before))
  # The moments of the inner optimizer shrink, its count goes on.
  mu, expected = own.inner[1].mu, state.inner[1].mu
  close(mu, jax.tree_util.tree_map(lambda m: 0.875 * m, expected))
  assert own.inner[1].count == own.count == STEPS


def test_after_a_full_reset_an_average_begins_again():
  model, _ = reset(EMA_OF_2, trained(EMA_OF_2)[-1], FullReset().plan(1.0))
  zeros = jax.tree_util.tree_map(jnp.zeros_like, params_at_first())
  begun = EMA_OF_2.build(Step(0.1)).init(zeros)
  assert_same((model.params, model.opt_state), (zeros, begun))


class Ahead(AdamW):
  """AdamW whose gradient is taken a fixed way ahead of the weights."""

  def gradient_point(self, state, params):
    del state
    return jax.tree_util.tree_map(lambda p: p + 100.0, params)


def test_the_gradient_is_taken_where_the_inner_optimizer_takes_it():
  """Ahead of z in an exponential average, of x / 4 + 3 z / 4 in another."""
  x, z = {'w': jnp.float32([4.0])}, {'w': jnp.float32([8.0])}
  for average, expected in (
    (EMA(Ahead()), 108.0),
    (Averaged(Ahead(), one_minus_beta1=0.75), 107.0),
  ):
    state = average.build(Step(0.1)).init(x)._replace(z=z)
    assert average.gradient_point(state, x)['w'] == expected


@pytest.mark.parametrize(
  ('fields', 'message'),
  (
    ({'inner': ADAMW, 'decay': 1.0}, 'decay=1.0'),
    ({'inner': ADAMW, 'decay': 1.1}, 'decay=1.1'),
    *(
      ({'inner': inner}, 'inner=.* trained weights are eval')
      for inner in (ScheduleFreeAdamW(), EMA_OF_2, AdamW, 'adamw')
    ),
  ),
  ids=str,
)
def test_wrong_fields_are_refused(fields, message):
  with pytest.raises(ValueError, match=message):
    EMA(**fields)

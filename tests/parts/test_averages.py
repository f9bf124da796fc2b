"""Nesterov momentum and averages of the weights, beside slow twins."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reset_cycles import soft_reset
from reset_cycles.core.cycle import Cycle, Hparams, StepNumbers
from reset_cycles.core.devices import Devices
from reset_cycles.core.optimizers import (
  AdamW,
  OptState,
  ScheduleFreeAdamW,
  clocked,
)
from reset_cycles.core.schedules import jax_lr_schedule
from reset_cycles.parts.averages import EMA, LAWA
from reset_cycles.parts.optimizers import Nesterov
from reset_cycles.soft_reset import FULL, Model, ResetPlan

STEPS = 12
HPARAMS = Hparams(
  learning_rate=0.1, one_minus_beta1=0.25, weight_decay=0.5, warmup_factor=0.0
)


def params_at_first():
  return {'b': jnp.float32([1.0, -2.0]), 'w': jnp.float32([[0.5, 3.0]])}


def grads_of(step):
  rng = np.random.default_rng(step)
  return jax.tree_util.tree_map(
    lambda p: jnp.asarray(rng.normal(size=p.shape), jnp.float32),
    params_at_first(),
  )


@pytest.fixture(scope='module')
def trained():
  """For an optimizer: parameters after each step, and the last state."""
  found = {}

  def train(optimizer):
    if optimizer not in found:
      cycles = jax_lr_schedule(STEPS, [Cycle(HPARAMS)], 1.0).cycles
      made = clocked(optimizer, cycles)
      params = params_at_first()
      state, after = made.init(params), []
      update = jax.jit(made.update)
      for step in range(STEPS):
        updates, state = update(grads_of(step), state, params)
        params = optax.apply_updates(params, updates)
        after.append(params)
      assert isinstance(state, OptState)
      found[optimizer] = after, state.state
    return found[optimizer]

  return train


def close(actual, expected):
  jax.tree_util.tree_map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6),
    actual,
    expected,
  )


def test_nesterov_agrees_with_its_formula(trained):
  after, _ = trained(Nesterov())
  params = np.array([1.0, -2.0])
  m = np.zeros(2)
  for step in range(STEPS):
    rate = 0.1 * 0.5 * (1 + np.cos(np.pi * step / STEPS))
    g = np.asarray(grads_of(step)['b'], np.float64)
    m = 0.75 * m + g
    params = params - rate * (0.75 * m + g + 0.5 * params)
    close(after[step]['b'], params)


def test_averages_train_as_the_inner_optimizer_does(trained):
  expected, _ = trained(AdamW())
  for optimizer in (EMA(AdamW(), decay=0.5), LAWA(AdamW(), k=3, every=2)):
    after, _ = trained(optimizer)
    for one, other in zip(after, expected):
      jax.tree_util.tree_map(np.testing.assert_array_equal, one, other)


def test_ema_is_the_mean_of_all_steps_by_their_age(trained):
  optimizer = EMA(AdamW(), decay=0.5)
  after, state = trained(optimizer)
  weights = [0.5 ** (STEPS - 1 - i) for i in range(STEPS)]
  expected = jax.tree_util.tree_map(
    lambda *steps: np.average(np.stack(steps), axis=0, weights=weights), *after
  )
  close(optimizer.eval_params(state, after[-1], HPARAMS), expected)
  np.testing.assert_allclose(state.weight_sum, sum(weights), rtol=1e-6)


def test_lawa_is_the_mean_of_the_last_snapshots_once_there_are_all(trained):
  # Snapshots after steps 2, 4, ..., 12: the last three are those of 8, 10, 12.
  for k, counted in ((3, slice(7, None, 2)), (6, slice(1, None, 2))):
    optimizer = LAWA(AdamW(), k=k, every=2)
    after, state = trained(optimizer)
    expected = jax.tree_util.tree_map(
      lambda *steps: np.mean(np.stack(steps), axis=0), *after[counted]
    )
    close(optimizer.eval_params(state, after[-1], HPARAMS), expected)
  optimizer = LAWA(AdamW(), k=7, every=2)
  after, state = trained(optimizer)
  found = optimizer.eval_params(state, after[-1], HPARAMS)
  np.testing.assert_array_equal(found['b'], after[-1]['b'])


def reset(optimizer, after, state, plan):
  """A reset of copies of the parameters and the state, by a model of zeros."""
  params, state = jax.tree_util.tree_map(jnp.copy, (after[-1], state))
  devices = Devices(params)
  model = devices.place(Model(params, (), state))
  built = optimizer.build(StepNumbers(0.1, 0.5, 0.25, 0.9, 1e-8, None))
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  roles = soft_reset.roles_of(built.init, shapes.params)
  soft_reset.compile_resets(shapes, roles, devices)
  fresh = jax.tree_util.tree_map(np.zeros_like, jax.device_get(params))
  return soft_reset.model_reinit_schedule(
    model, (fresh, ()), plan, roles, devices
  )


@pytest.mark.parametrize(
  'optimizer', (EMA(AdamW(), decay=0.5), LAWA(AdamW(), k=3, every=2))
)
def test_a_soft_reset_blends_the_average_and_takes_weight_from_it(
  trained, optimizer
):
  after, state = trained(optimizer)
  before = optimizer.eval_params(state, after[-1], HPARAMS)
  model = reset(optimizer, after, state, ResetPlan(0.25, 0.875, True))
  own = model.opt_state
  # The moments of the inner optimizer shrink, the average is blended.
  mu, expected = own.inner[1].mu, state.inner[1].mu
  close(mu, jax.tree_util.tree_map(lambda m: 0.875 * m, expected))
  assert own.inner[1].count == STEPS
  np.testing.assert_allclose(own.weight_sum, 0.75 * state.weight_sum, rtol=1e-6)
  full = own._replace(weight_sum=state.weight_sum)
  blended = optimizer.eval_params(full, model.params, HPARAMS)
  close(blended, jax.tree_util.tree_map(lambda x: 0.75 * x, before))


def test_after_a_full_reset_an_average_begins_again(trained):
  ema = EMA(AdamW(), decay=0.5)
  after, state = trained(ema)
  own = reset(ema, after, state, FULL).opt_state
  assert own.weight_sum == 0
  close(own.average, jax.tree_util.tree_map(jnp.zeros_like, after[-1]))
  lawa = LAWA(AdamW(), k=3, every=2)
  after, state = trained(lawa)
  own = reset(lawa, after, state, FULL).opt_state
  assert own.weight_sum == 0
  assert own.count == 0
  # As little as the blended window counts, so much of it must be new.
  numbers = StepNumbers(0.1, 0.5, 0.25, 0.9, 1e-8, None)
  made = lawa.build(numbers)
  state = state._replace(weight_sum=jnp.float32(0.75 * 3))
  params = after[-1]
  for num_new, is_mean in ((0, False), (0, False), (1, True)):
    found = lawa.eval_params(state, params, HPARAMS)
    is_raw = np.array_equal(found['b'], params['b'])
    assert is_raw is not is_mean, num_new
    _, state = made.update(grads_of(0), state, params)


def test_wrong_fields_are_refused():
  with pytest.raises(ValueError, match='decay=1'):
    EMA(AdamW(), decay=1.0)
  with pytest.raises(ValueError, match='k=0'):
    LAWA(AdamW(), k=0)
  with pytest.raises(ValueError, match='every=0.5'):
    LAWA(AdamW(), every=0.5)
  for inner in (ScheduleFreeAdamW(), EMA(AdamW()), AdamW, 'adamw'):
    with pytest.raises(ValueError, match='inner=.* trained weights are eval'):
      LAWA(inner)

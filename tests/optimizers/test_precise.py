"""In half precision, every optimizer of ours trains as in float32, but for rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.every_optimizer import OPTIMIZERS
from helpers.trees import assert_close, assert_same, host
from reset_cycles.core.devices import Devices
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.momentum import Nesterov
from reset_cycles.optimizers.precise import InFloat32
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import FULL, ResetPlan

map_ = jax.tree_util.tree_map
HALF = jnp.bfloat16
START = {
  'b': np.asarray([1.0, -2.0, 0.5], HALF),
  'w': np.asarray([[0.5, 3.0, -1.0], [2.0, 1.0, 0.25]], HALF),
}
FRESH = {
  'b': np.asarray([-1.0, 2.0, 0.25], HALF),
  'w': np.asarray([[1.0, -9.0, 3.0], [1.0, 1.0, 1.0]], HALF),
}
SPAN = 60  # steps of one compiled scan
SPANS = 50
in_float32 = lambda tree: map_(np.float32, host(tree))


def spanned(optimizer, params, state, first):
  """60 steps with gradients that only the step tells."""

  def step(carry, number):
    params, state = carry
    keys = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(0), number))
    # Eighths are the same in both types.
    grads = {
      name: (jnp.round(1 + 8 * jax.random.normal(key, p.shape)) / 8).astype(
        p.dtype
      )
      for key, (name, p) in zip(keys, params.items())
    }
    rate = 0.002 * (1.1 + jnp.cos(number / 100))
    updates, state = optimizer.build(Step(rate)).update(grads, state, params)
    return (optax.apply_updates(params, updates), state), None

  steps = first + jnp.arange(SPAN)
  return jax.lax.scan(step, (params, state), steps)[0]


def run(optimizer, dtype):
  """What is evaluated after 60 and 3,000 steps, a soft and a full reset.

  After each reset, and 60 steps later.
  """
  begin = lambda params: optimizer.build(Step(jnp.float32(0))).init(params)
  cast = lambda tree: map_(lambda x: x.astype(dtype), tree)
  params, devices = map_(jnp.asarray, cast(START)), Devices()
  state = begin(params)
  role_of = role_in(optimizer.roles(params))
  model = devices.put(Model(params, (), state))
  resets = ModelReset(devices, role_of, begin, model)
  span = jax.jit(lambda *args: spanned(optimizer, *args))
  seen = []
  plans = {SPANS - 1: ResetPlan(0.25, 0.875, True), SPANS: FULL}
  for i in range(SPANS + 2):
    params, state = span(params, state, i * SPAN)
    params, state = host((params, state))  # saved and restored
    if i in (0, *range(SPANS - 1, SPANS + 2)):
      seen.append(params)
    if i in plans:
      model = devices.put(Model(params, (), state))
      model, _ = resets(model, (cast(FRESH), ()), plans[i])
      params, state = host((model.params, model.opt_state))
      seen.append(params)
  return seen, state


@pytest.mark.parametrize(
  ('name', 'dtype'), [*((n, HALF) for n in OPTIMIZERS), ('ema', jnp.float16)]
)
def test_what_is_evaluated_is_that_of_float32_rounded(name, dtype):
  optimizer = InFloat32(OPTIMIZERS[name])
  right, whole = run(optimizer, jnp.float32)
  found, state = run(optimizer, dtype)
  # Half a unit in the last place, and .1 % of it for float32's own rounding.
  half = 1.001 * float(jnp.finfo(dtype).eps) / 2
  for a, b in zip(right, found):
    assert {leaf.dtype for leaf in b.values()} == {np.dtype(dtype)}
    assert_close(in_float32(b), a, rtol=half, atol=1e-5)
  types = lambda tree: [x.dtype for x in jax.tree_util.tree_leaves(tree)]
  assert types(state.inner) == types(whole)
  assert set(types(state.copies)) == {np.dtype(np.float32)}


MIXED = {'b': START['b'], 'w': np.float32(START['w'])}
ALL = {name: np.float32(leaf) for name, leaf in START.items()}


@pytest.mark.parametrize('name', ['adamw', 'schedule_free_muon'])
def test_in_float32_it_is_the_optimizer_itself(name):
  optimizer = InFloat32(OPTIMIZERS[name])
  plain, inside = (
    jax.jit(lambda o=o: spanned(o, ALL, o.build(Step(0.1)).init(ALL), 0))()
    for o in (optimizer.inner, optimizer)
  )
  assert_same(inside, plain)
  params, state = plain
  assert_same(
    optimizer.gradient_point(state, params),
    optimizer.inner.gradient_point(state, params),
  )


def test_only_what_is_coarse_has_a_copy():
  """Each leaf steps by itself: as among others of its type."""
  optimizer = InFloat32(AdamW())
  start = lambda params: optimizer.build(Step(0.1)).init(params)
  mixed, whole, half = (
    jax.jit(lambda p=p: spanned(optimizer, p, start(p), 0))()
    for p in (MIXED, ALL, START)
  )
  assert_same(mixed[0], {'b': half[0]['b'], 'w': whole[0]['w']})
  assert jax.tree_util.tree_leaves(mixed[1].copies)[0].shape == (3,)
  assert len(jax.tree_util.tree_leaves(mixed[1].copies)) == 1


def test_a_parameter_that_has_been_moved_is_copied_anew():
  """By a step of 2^-10 at a gradient of 1, which alone would round to nothing."""
  tx = InFloat32(Nesterov(1.0, weight_decay=0.0)).build(Step(2.0**-10))
  params = {'x': jnp.asarray([1.0, 1.0], HALF)}
  state, ones = tx.init(params), {'x': jnp.ones(2, HALF)}
  for _ in range(3):
    updates, state = tx.update(ones, state, params)
    params = optax.apply_updates(params, updates)
  assert state.copies['x'].tolist() == [1 - 3 * 2.0**-10] * 2
  assert params['x'].tolist() == [1 - 2.0**-8] * 2
  params = {'x': params['x'].at[1].set(3.0)}
  updates, state = tx.update(ones, state, params)
  assert state.copies['x'].tolist() == [1 - 2.0**-8, 3 - 2.0**-10]


def test_a_move_by_one_unit_in_the_last_place_stays():
  """By a loop's own decay, beside which a step of 2^-20 rounds to nothing."""
  tx = InFloat32(Nesterov(1.0, weight_decay=0.0)).build(Step(2.0**-20))
  params = {'x': jnp.asarray([1.0, 1.0], HALF)}
  state, ones = tx.init(params), {'x': jnp.ones(2, HALF)}
  for moved in (1.0, 1 + 2.0**-7, 1 - 2.0**-8, 1.0):
    params = {'x': params['x'].at[1].set(moved)}
    updates, state = tx.update(ones, state, params)
    params = optax.apply_updates(params, updates)
    assert params['x'].tolist() == [1.0, moved]
    assert state.copies['x'][1] == moved - 2.0**-20
  assert state.copies['x'][0] == 1 - 4 * 2.0**-20

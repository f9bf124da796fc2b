"""What holds of every optimizer, and of every average around one."""

import dataclasses
import functools
import importlib
import json
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.tree_util import GetAttrKey

from helpers.every_optimizer import OPTIMIZERS
from helpers.trees import assert_close, assert_same, host
from reset_cycles import optimizers
from reset_cycles.core.devices import Devices, PmapDevices
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.engine.records import as_plain
from reset_cycles.engine.train_step import train_step
from reset_cycles.optimizers.adamw import AdamW, Rms, RmsW
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.momentum import Nesterov
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.precise import InFloat32
from reset_cycles.optimizers.roles import COUNT, ITERATE, MOMENT
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import FULL, ResetPlan
from reset_cycles.views.settings_json import from_plain

EACH = pytest.mark.parametrize('name', OPTIMIZERS)
# What a reset does to a leaf, by the last name on its path.
ROLES = {
  **dict.fromkeys(('mu', 'nu', 'norms', 'trace'), MOMENT),
  **dict.fromkeys(('z', 'weight_sum'), ITERATE),
  'count': COUNT,
}
# The optimizers that keep moments which a rate of 0 moves: Adam's, as optax has it.
MOVING = {'adamw', 'nadamw', 'nesterov', 'published_muon'}
START = {
  'bias': np.float32([1.0, -2.0, 0.5]),
  'half': np.asarray([[1.0, -0.5], [0.25, 2.0]], jnp.bfloat16),
  'kernel': np.float32([[0.5, 3.0, -1.0], [2.0, 1.0, 0.25]]),
}
# On eight devices: three matrices, of which one stack is dealt out.
DEALT_OUT = {
  'bias': START['bias'],
  **{f'kernel_{i}': START['kernel'] * 0.5**i for i in range(3)},
}
GRADS = jax.tree_util.tree_map(lambda x: (x * x - 1).astype(x.dtype), START)


def field_of(path):
  """The last name on a path."""
  return [key.name for key in path if hasattr(key, 'name')][-1]


@functools.cache
def update_of(name):
  """(rate, gradients, state, parameters) -> (parameters, state), compiled."""

  def update(rate, grads, state, params):
    tx = OPTIMIZERS[name].build(Step(rate))
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state

  return jax.jit(update)


def init(name, params=START):
  tx = OPTIMIZERS[name].build(Step(jnp.float32(0.1)))
  return tx.init(jax.tree_util.tree_map(jnp.asarray, params))


@functools.cache
def trained(name):
  """Parameters and state after three steps, on the host."""
  params, state = START, init(name)
  for rate in np.float32([0.1, 0.05, 0.2]):
    params, state = update_of(name)(rate, GRADS, state, params)
  return host((params, state))


def test_none_is_left_out():
  modules = [
    importlib.import_module(f'{optimizers.__name__}.{module.name}')
    for module in pkgutil.iter_modules(optimizers.__path__)
  ]
  kinds = {
    kind
    for module in modules
    for kind in vars(module).values()
    if dataclasses.is_dataclass(kind) and hasattr(kind, 'build')
  }
  assert kinds == {type(optimizer) for optimizer in OPTIMIZERS.values()}


@EACH
def test_a_step_moves_every_parameter_and_keeps_all_types(name):
  params, state = trained(name)
  types = lambda tree: [x.dtype for x in jax.tree_util.tree_leaves(tree)]
  assert types((params, state)) == types((START, init(name)))
  for after, before in zip(params.values(), START.values()):
    assert (after != before).all()
    assert np.isfinite(after.astype(np.float32)).all()


@EACH
def test_a_rate_of_0_moves_nothing(name):
  """As the first step, too, when no weight is there to be divided by."""
  optimizer = OPTIMIZERS[name]
  on_device = functools.partial(jax.tree_util.tree_map, jnp.asarray)
  for params, state in map(on_device, (trained(name), (START, init(name)))):
    after, then = update_of(name)(np.float32(0), GRADS, state, params)
    assert_same(after, params)
    assert_same(
      optimizer.gradient_point(then, after),
      optimizer.gradient_point(state, params),
    )
    if isinstance(optimizer, Averaged):  # whose inner moments may move
      then, state = then._replace(inner=()), state._replace(inner=())
    if name not in MOVING:
      assert_same(then, state)


@pytest.mark.parametrize('name', sorted({*OPTIMIZERS} - {'at_gradient'}))
def test_json_there_and_back(name):
  plain = json.loads(json.dumps(as_plain(OPTIMIZERS[name])))
  assert from_plain(plain) == OPTIMIZERS[name]


@EACH
def test_no_buffer_is_donated_twice(name):
  params = jax.tree_util.tree_map(jnp.asarray, START)
  state = OPTIMIZERS[name].build(Step(jnp.float32(0.1))).init(params)
  leaves = jax.tree_util.tree_leaves((params, state))
  pointers = [leaf.unsafe_buffer_pointer() for leaf in leaves]
  assert len({*pointers}) == len(pointers)


@EACH
def test_a_reset(name):
  """Moments shrink, iterates blend, counts stay; all begins anew if it is full."""
  optimizer, before, devices = OPTIMIZERS[name], trained(name), Devices()
  fresh = jax.tree_util.tree_map(np.ones_like, START)
  begun = init(name, fresh)
  laid_out = lambda: devices.put(Model(before[0], (), before[1]))
  start = lambda params: optimizer.build(Step(0.1)).init(params)
  role_of = role_in(optimizer.roles(START))
  resets = ModelReset(devices, role_of, start, laid_out())
  found, _ = resets(laid_out(), (fresh, ()), ResetPlan(0.25, 0.875, True))

  def expected(path, old, new):
    keep, share = {
      MOMENT: (0.875, 0.0),
      ITERATE: (0.75, 0.25),
      COUNT: (1, 0),
    }[ROLES[field_of(path)]]
    return np.asarray(keep * old + share * np.asarray(new), old.dtype)

  as_by_hand = jax.tree_util.tree_map_with_path(expected, before[1], begun)
  for leaf, by_hand in zip(
    *map(jax.tree_util.tree_leaves, (host(found.opt_state), as_by_hand))
  ):
    rtol = 1e-2 if leaf.dtype == jnp.bfloat16 else 1e-6
    leaf, by_hand = np.float64(leaf), np.float64(by_hand)
    np.testing.assert_allclose(leaf, by_hand, rtol=rtol, atol=1e-7)
  found, _ = resets(laid_out(), (fresh, ()), FULL)
  assert_same((found.params, found.opt_state), (fresh, begun))


class Mistyped(RmsW):
  moments = ('nv',)


class WithoutComma(Nesterov):
  moments = 'trace'


class Average(Averaged):
  iterates = ('y',)


@pytest.mark.parametrize('around', [lambda inner: inner, Averaged, InFloat32])
@pytest.mark.parametrize(
  ('optimizer', 'said'),
  [
    (Mistyped(), r"Mistyped.moments=\('nv',\): .* which are count, nu\.$"),
    (WithoutComma(), "WithoutComma.moments='trace': must be a tuple of names"),
  ],
)
def test_a_moment_that_is_no_field_of_the_state_is_refused(
  around, optimizer, said
):
  with pytest.raises(ValueError, match=f'^{said}'):
    around(optimizer).roles(START)


def test_an_iterate_that_is_no_field_of_the_state_is_refused():
  said = r"^Average.iterates=\('y',\): .* mu, nu, weight_sum, z\.$"
  with pytest.raises(ValueError, match=said):
    Average(AdamW()).roles(START)


class MistypedRest(Rms):
  moments = ('mu',)


def test_a_moment_of_the_rest_may_be_empty_but_is_a_field():
  kernel = {'kernel': START['kernel']}
  assert Muon().roles(kernel)([GetAttrKey('nu')]) == MOMENT
  with pytest.raises(ValueError, match='^MistypedRest.moments=.* count, nu'):
    Muon(rest=MistypedRest()).roles(kernel)


class ByKind(AdamW):
  """Adam for vectors, momentum for what has more axes."""

  moments = ('mu', 'nu', 'trace')

  def build(self, step):
    kinds = {'vector': super().build(step), 'other': optax.trace(0.9)}
    kind = lambda x: 'vector' if x.ndim == 1 else 'other'
    labels = functools.partial(jax.tree_util.tree_map, kind)
    return optax.multi_transform(kinds, labels)


@pytest.mark.parametrize('name', ['bias', 'kernel'])
def test_a_moment_that_no_parameter_of_a_model_has_is_a_field(name):
  role = ByKind().roles({name: START[name]})
  for field in ByKind.moments:
    assert role([GetAttrKey(field)]) == MOMENT


def steps_on(devices, name, has_axis):
  """Parameters and state after two steps on all devices, as they lie there."""
  optimizer = OPTIMIZERS[name]
  tx = optimizer.build(Step(jnp.float32(0.1), spread=devices.spread))

  def loss_fn(params, model_state, batch, rng):
    del rng
    terms = [jnp.sum(jnp.square(p)) for p in params.values()]
    return batch.sum() * sum(terms), (batch.sum(), model_state)

  params = DEALT_OUT
  params = devices.put(params)
  state = devices.init(tx.init, params)
  body = train_step(loss_fn, tx, optimizer.gradient_point)
  step = devices.compile_step(body)
  batch = np.float32([1, 2, 0, 1, 1, 3, 1, 1])
  batch = batch[:, None] if has_axis else batch
  model_state = devices.put(np.float32(0))
  for _ in range(2):
    params, model_state, state, _ = step(
      params, model_state, state, batch, jax.random.PRNGKey(0)
    )
  return params, state


@EACH
def test_eight_devices_step_as_one_does(name):
  """In both generations, and every device holds the same."""
  optimizer = OPTIMIZERS[name]
  params = DEALT_OUT
  state = optimizer.build(Step(jnp.float32(0.1))).init(
    jax.tree_util.tree_map(jnp.asarray, params)
  )
  for _ in range(2):
    point = optimizer.gradient_point(state, params)
    grads = jax.tree_util.tree_map(lambda y: 2 * y, point)
    params, state = update_of(name)(np.float32(0.1), grads, state, params)
  for devices in (Devices(), PmapDevices()):
    found = steps_on(devices, name, isinstance(devices, PmapDevices))
    for leaf in jax.tree_util.tree_leaves(found):
      copies = [np.asarray(shard.data) for shard in leaf.addressable_shards]
      assert len(copies) == 8
      for copy in copies[1:]:
        np.testing.assert_array_equal(copy, copies[0])
    assert_close(devices.get(found), (params, state), rtol=1e-5, atol=1e-6)

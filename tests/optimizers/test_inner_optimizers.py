"""The inner optimizers beside AdamW: their steps, their slots, a reset."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference_optimizers
from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.inner import InnerHparams, Slots
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.settings.hparams import HPARAMS

STEPS = 300
H = dataclasses.replace(HPARAMS, weight_decay=0.2, beta2=0.99)
NUMBERS = InnerHparams(H.one_minus_beta1, H.beta2, H.eps, None)
# A warm-up from 0, then a constant, then a fall to 0.
RATES = np.float32(
  [*np.linspace(0, 0.02, 30), *[0.02] * 150, *np.linspace(0.02, 0, 120)]
)
ALL = {
  'nadamw': {},
  'nadamp': {'name': 'nadamw', 'power': 1.5},
  'nesterov': {},
  'ademamix': {'beta3': 0.999, 'alpha': 3.0},
  'ademamix with a warm-up': {'name': 'ademamix', 'warmup': 100},
  'schedule_free_adamw': {},
  'schedule_free with powers': {
    'name': 'schedule_free_adamw',
    'r': 0.75,
    'weight_lr_power': 1.0,
  },
}


def setting(name):
  return INNER.read('optimizer', {'name': name, **ALL[name]})


def draws(seed=0):
  rng = np.random.default_rng(seed)
  scales = np.exp(2 * np.sin(np.arange(STEPS) / 20))
  start = rng.normal(size=(4, 3)).astype(np.float32)
  return start, [
    (scale * rng.normal(size=(4, 3))).astype(np.float32) for scale in scales
  ]


def train(build, start, grads, rates, eval_params=lambda state, y: y):
  """(trained, evaluated) after each step of `build(rate)`'s transformation."""

  @jax.jit
  def step(values, state, grad, rate):
    updates, state = build(rate).update(grad, state, values)
    values = optax.apply_updates(values, updates)
    return values, state, eval_params(state, values)

  values, state, history = jnp.asarray(start), build(0.1).init(start), []
  for grad, rate in zip(grads, rates):
    values, state, evaluated = step(values, state, grad, rate)
    history.append(jax.device_get((values, evaluated)))
  return history


def train_inner(name, start, grads, rates, decay=H.weight_decay):
  inner = INNER.make(setting(name))

  def build(rate):
    return inner.build(NUMBERS, rate, decay)

  return train(build, start, grads, rates, inner.eval_params)


def assert_close(found, expected, rates=RATES, roundings=1):
  """Each step rounds what it adds to, and what it adds, a few times over.

  Schedule-Free takes y apart and puts it together again: four roundings.
  """
  ulp, allowed = 2.0**-23, 0.0
  before = expected[0]
  for t, (value, wanted, rate) in enumerate(zip(found, expected, rates)):
    # What was added: of 32 roundings each, those of Adam's 1 - b2^t among them.
    moved = np.max(np.abs(wanted - before)) + 8 * rate
    allowed += ulp * (roundings * np.max(np.abs(wanted)) + 32 * moved)
    error = np.max(np.abs(value - wanted))
    assert error <= allowed, (t, error, allowed)
    before = wanted


def assert_close_pairs(found, expected, rates):
  for i in range(2):
    of_one = ([pair[i] for pair in history] for history in (found, expected))
    assert_close(*of_one, rates, roundings=4)


TWINS = {
  'nadamw': reference_optimizers.nadamw,
  'nesterov': reference_optimizers.nesterov,
  'ademamix': reference_optimizers.ademamix,
  'schedule_free_adamw': reference_optimizers.schedule_free,
}


@pytest.mark.parametrize('name', ALL)
def test_300_steps_agree_with_twin(name):
  start, grads = draws()
  parameters = dict(ALL[name])
  twin = TWINS[parameters.pop('name', name)]
  expected = twin(start, grads, RATES.astype(np.float64), H, **parameters)
  found = train_inner(name, start, grads, RATES)
  if isinstance(expected[0], tuple):
    assert_close_pairs(found, expected, RATES)
    return
  assert all(np.array_equal(y, x) for y, x in found)
  assert_close([y for y, _ in found], expected)


def test_nesterov_is_optax_with_its_decay_outside_the_momentum():
  start, grads = draws(1)
  found = train_inner('nesterov', start, grads, RATES)
  momentum = 1 - H.one_minus_beta1

  def build(rate):
    return optax.chain(
      optax.trace(momentum, nesterov=True),
      optax.add_decayed_weights(H.weight_decay),
      optax.scale(-rate),
    )

  expected = train(build, start, grads, RATES)
  assert_close([y for y, _ in found], [y for y, _ in expected])


CONTRIB = getattr(optax, 'contrib', None)


@pytest.mark.skipif(
  not hasattr(CONTRIB, 'ademamix'), reason='this optax has no AdEMAMix'
)
def test_ademamix_is_that_of_optax():
  start, grads = draws(2)
  found = train_inner('ademamix', start, grads, RATES)

  def build(rate):
    return CONTRIB.ademamix(
      rate,
      b1=1 - H.one_minus_beta1,
      b2=H.beta2,
      b3=0.999,
      alpha=3.0,
      weight_decay=H.weight_decay,
    )

  expected = train(build, start, grads, RATES)
  assert_close([y for y, _ in found], [y for y, _ in expected])


@pytest.mark.skipif(
  not hasattr(CONTRIB, 'schedule_free_adamw'),
  reason='this optax has no Schedule-Free',
)
def test_schedule_free_is_that_of_optax():
  # Where the rate is constant: optax reads a schedule at two steps at once.
  start, grads = draws(3)
  rates = np.full(STEPS, 0.01, np.float32)
  found = train_inner('schedule_free_adamw', start, grads, rates)

  def build(rate):
    del rate
    return CONTRIB.schedule_free_adamw(
      0.01,
      b1=1 - H.one_minus_beta1,
      b2=H.beta2,
      weight_decay=H.weight_decay,
    )

  expected = train(
    build, start, grads, rates, CONTRIB.schedule_free_eval_params
  )
  assert_close_pairs(found, expected, rates)


def state_after(name, count=3):
  inner = INNER.make(setting(name))
  built = inner.build(NUMBERS, 0.1, 0.1)
  values = {'a': jnp.float32([1.0, -2.0]), 'b': jnp.float32([[3.0]])}
  state = built.init(values)
  for _ in range(count):
    updates, state = built.update(values, state, values)
    values = optax.apply_updates(values, updates)
  return inner, built, state, values


@pytest.mark.parametrize('name', ALL)
def test_slots_are_all_of_the_state_and_can_be_put_back(name):
  inner, _, state, _ = state_after(name)
  leaves = jax.tree_util.tree_leaves
  slots = inner.slots(state)
  same = inner.with_slots(state, slots)
  assert all(a is b for a, b in zip(leaves(same), leaves(state)))
  known = {id(leaf) for leaf in leaves(slots)}
  missing = [leaf for leaf in leaves(state) if id(leaf) not in known]
  # Schedule-Free's b1 says how y was made: no reset changes that.
  assert len(missing) == ('schedule_free' in name)
  doubled = jax.tree_util.tree_map(lambda x: 2 * x, slots)
  again = inner.slots(inner.with_slots(state, doubled))
  for found, wanted in zip(leaves(again), leaves(doubled)):
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize('name', ALL)
def test_what_a_full_reset_leaves_is_the_beginning(name):
  inner, built, state, values = state_after(name)
  fresh = jax.tree_util.tree_map(lambda v: 7 * jnp.ones_like(v), values)
  zeros = jax.tree_util.tree_map(jnp.zeros_like, inner.slots(state))
  emptied = Slots(
    zeros.moments,
    tuple(fresh for _ in zeros.iterates),
    zeros.counts,
    zeros.weights,
  )
  found = inner.with_slots(state, emptied)
  jax.tree_util.tree_map(
    np.testing.assert_array_equal, found, built.init(fresh)
  )


def test_half_a_reset_of_schedule_free_blends_what_is_evaluated():
  inner, _, state, values = state_after('schedule_free_adamw')
  fresh = jax.tree_util.tree_map(lambda v: jnp.full_like(v, 4.0), values)

  def half(tree):
    return jax.tree_util.tree_map(lambda a, b: (a + b) / 2, tree, fresh)

  slots = inner.slots(state)
  (z,), (weight,) = slots.iterates, slots.weights
  blended = slots._replace(iterates=(half(z),), weights=(weight / 2,))
  x = inner.eval_params(state, values)
  found = inner.eval_params(inner.with_slots(state, blended), half(values))
  for a, b in zip(*map(jax.tree_util.tree_leaves, (found, half(x)))):
    np.testing.assert_allclose(a, b, rtol=1e-5)


def test_x_is_right_where_the_next_cycle_has_another_beta1():
  inner, _, state, y = state_after('schedule_free_adamw')
  x = inner.eval_params(state, y)
  other = inner.build(NUMBERS._replace(one_minus_beta1=0.5), 0.0, 0.0)
  updates, state = other.update(y, state, y)
  # At rate 0 nothing moves z, and the largest rate weighs x towards it.
  weight = 0.1**2
  c, (z,) = weight / (4 * weight), inner.slots(state).iterates
  y = optax.apply_updates(y, updates)
  found = inner.eval_params(state, y)
  for name in y:
    wanted = (1 - c) * x[name] + c * z[name]
    np.testing.assert_allclose(found[name], wanted, rtol=1e-5)
    np.testing.assert_allclose(y[name], (wanted + z[name]) / 2, rtol=1e-5)


def test_schedule_free_needs_a_beta1_above_0():
  none = dataclasses.replace(HPARAMS, one_minus_beta1=1.0)
  with pytest.raises(ValueError, match='one_minus_beta1 must be below 1'):
    ScheduleParams(optimizer='schedule_free_adamw', hparams=none)
  ScheduleParams(optimizer='nesterov', hparams=none)


@pytest.mark.parametrize('name', ALL)
def test_clipping_halves_the_gradient(name):
  inner = INNER.make(setting(name))
  values, grads = jnp.float32([1.0, 2.0]), jnp.float32([3.0, 4.0])

  def moments(limit, grads):
    built = inner.build(NUMBERS._replace(grad_clip=limit), 0.1, 0.1)
    _, state = built.update(grads, built.init(values), values)
    return inner.slots(state).moments

  clipped = moments(2.5, grads)
  for found, wanted in zip(clipped, moments(None, grads / 2)):
    np.testing.assert_allclose(found, wanted, rtol=1e-6)

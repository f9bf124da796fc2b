"""AdamW: its steps at the cycle clock, and what a reset may touch of it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
import reference_run
from replay import rules_of
from reset_cycles.control import decide
from reset_cycles.control.state import Evaluation
from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.optimizers.inner import (
  InnerHparams,
  Slots,
  find_state,
  map_states,
)
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules.cycle import Cycle
from reset_cycles.settings.hparams import HPARAMS

STEPS, STEP_HINT = 300, 150
SHAPES = ((6, 4), (4,), ())
POLYNOMIAL = {'name': 'polynomial', 'start': 0.1, 'end': 1.0, 'power': 2.0}
# Cycle 1 is left before step 40 of 100, cycle 2 goes on to its end.
EVALUATIONS = ((30, 1.0, 0.1), (40, 2.0, 0.2))


def make_params(weight_decays=(), alter_weight_decay=(), **changes):
  hparams = dataclasses.replace(HPARAMS, **changes)
  return ScheduleParams(
    weight_decays=weight_decays,
    alter_weight_decay=alter_weight_decay,
    warmups=('linear', 'cosine', 'none'),
    decays=('cosine', 'holding_exponential', 'holding_linear'),
    alter_lr=(0.0, 0.001, -0.001),
    policy='finish',
    hparams=hparams,
  )


def draws(count, seed=0):
  """`count` lists of arrays, of sizes that grow and shrink over time."""
  rng = np.random.default_rng(seed)
  scales = np.exp(2 * np.sin(np.arange(count) / 20))
  return [
    [np.asarray(scale * rng.normal(size=s), np.float32) for s in SHAPES]
    for scale in scales
  ]


def train(params, start, grads):
  """Parameters after each step; cycles end as in a run with EVALUATIONS."""
  rules = rules_of(params, STEP_HINT)
  adamw = clocked(AdamW(), rules.cycles)

  @jax.jit
  def update(values, state, grad):
    updates, state = adamw.update(grad, state, values)
    return optax.apply_updates(values, updates), state

  seen_at = {e[0]: [Evaluation(*e)] for e in EVALUATIONS}
  control, clock = decide.start(rules), decide.first_clock(rules)
  values, state, history = start, adamw.init(start), []
  for step, grad in enumerate(grads):
    seen = seen_at.get(step, [])
    decision = decide.decide(control, clock, seen, step, rules)
    control, clock = decision.control, decision.clock
    if decision.action == decide.RESET:
      state = state._replace(clock=clock)
    values, state = update(values, state, grad)
    history.append(jax.device_get(values))
  return history, state


def rounding(rates, expected, hparams):
  """What 300 steps in float32 may be off by.

  Every step rounds the parameter (half an ulp of it) and adds an update of at
  most 4 times the rate, with a relative error of: 16 half ulps of the learning
  rate, some 16 of the other operations, and half an ulp of beta2 in 1 - beta2^t,
  which is small at first. Gradients don't depend on parameters here, so errors
  add up and do not grow.
  """
  half_ulp = 2.0**-24
  t = np.arange(1, len(rates) + 1)
  relative = half_ulp * (32 + 1 / (1 - hparams.beta2**t))
  largest = max(np.max(np.abs(p)) for step in expected for p in step)
  per_step = half_ulp * largest + 4 * max(rates) * relative
  return np.cumsum(per_step)


@pytest.mark.parametrize(
  'changes',
  (
    {},
    {'grad_clip': 1.0},
    {'grad_clip': 1e6},
    {'weight_decay': 0.0, 'eps': 0.1},
    {'one_minus_beta1': 1.0, 'beta2': 0.9},
    {'weight_decay': 1.0, 'learning_rate': 0.01},
    {'weight_decays': ('ratio', 'cosine', 'constant')},
    {'alter_weight_decay': (1.0, -HPARAMS.weight_decay, 0.5)},
    {
      'weight_decays': ('step', POLYNOMIAL, 'ratio'),
      'alter_weight_decay': (1.0, 0.5, 2.0),
      'learning_rate': 0.01,
    },
  ),
)
def test_300_steps_agree_with_twin(changes):
  params = make_params(**changes)
  (start,), grads = draws(1, seed=1), draws(STEPS)
  tape = reference_run.run(params, STEP_HINT, EVALUATIONS, until=STEPS)
  # The remaining 260 steps are shared out anew.
  assert tape.of('cycle_start', 'global_step') == [(0,), (40,), (170,)]
  expected = reference.adamw(
    start, grads, tape.rates, params.hparams, tape.decays
  )
  history, state = train(params, start, grads)
  allowed = rounding(tape.rates, expected, params.hparams)
  for step in range(STEPS):
    for found, wanted in zip(history[step], expected[step]):
      assert np.all(np.abs(found - wanted) <= allowed[step]), step
  adam = find_state(state, optax.ScaleByAdamState)
  assert (int(adam.count), int(state.clock.count)) == (STEPS, STEPS)
  assert int(state.clock.cycle) == 2


def clocked_adamw(rate=0.1, **changes):
  """A cycle of ten steps at one rate."""
  hparams = dataclasses.replace(HPARAMS, **changes)
  schedule = optax.constant_schedule(rate)
  return clocked(AdamW(), [Cycle(10, 0, rate, schedule, None, hparams, 1.0)])


def test_the_first_step_by_hand():
  # m / (1 - b1) = g and v / (1 - b2) = g^2: the update is the sign of g, plus
  # the decay. The rate is 0.01 from the start (no warm-up).
  adamw = clocked_adamw(0.01, weight_decay=0.5)
  start = jnp.float32([2.0, -2.0])
  updates, _ = adamw.update(jnp.float32([3.0, 0.5]), adamw.init(start), start)
  # -0.01 * (1 + 0.5 * 2) and -0.01 * (1 - 0.5 * 2)
  np.testing.assert_allclose(updates, [-0.02, 0.0], atol=1e-7)


def test_clipping_by_hand():
  # The global norm is 13; a limit of 6.5 halves what goes into the moments.
  grads = {'a': jnp.float32([3.0, 4.0]), 'b': jnp.float32([12.0])}
  one_minus_beta1 = 0.25
  for limit, factor in ((None, 1.0), (6.5, 0.5), (13.5, 1.0)):
    adamw = clocked_adamw(grad_clip=limit, one_minus_beta1=one_minus_beta1)
    _, state = adamw.update(grads, adamw.init(grads), grads)
    adam = find_state(state, optax.ScaleByAdamState)
    expected = np.asarray([3.0, 4.0]) * factor * one_minus_beta1
    np.testing.assert_allclose(adam.mu['a'], expected, rtol=1e-6)


HPARAMS_OF_A_STEP = InnerHparams(0.5, 0.75, 1e-8, None)


@pytest.mark.parametrize('traced', (True, False))
def test_each_leaf_is_updated_in_its_own_type(traced):
  # Adam's first update is 1, the decay adds 0.5 * 2: -0.25 * 2 is exact.
  values = {'a': jnp.full(2, 2.0), 'b': jnp.full(2, 2.0, jnp.bfloat16)}
  grads = jax.tree_util.tree_map(jnp.ones_like, values)
  adamw = AdamW()

  def update(rate, decay):
    built = adamw.build(HPARAMS_OF_A_STEP, rate, decay)
    updates, _ = built.update(grads, built.init(values), values)
    return updates

  numbers = (0.25, 0.5)
  if traced:
    update = jax.jit(update)
  updates = update(*numbers)
  assert updates['a'].dtype == jnp.float32
  assert updates['b'].dtype == jnp.bfloat16
  for leaf in updates.values():
    np.testing.assert_allclose(leaf.astype(jnp.float32), -0.5, rtol=1e-6)


def test_state_holds_arrays_only():
  leaves = jax.tree_util.tree_leaves(clocked_adamw().init(jnp.ones(3)))
  assert all(hasattr(leaf, 'dtype') for leaf in leaves)


def state_after_two_steps(**changes):
  """AdamW's own state, of two leaves."""
  adamw = clocked_adamw(**changes)
  values = {'a': jnp.float32([1.0, -2.0]), 'b': jnp.float32([[3.0]])}
  state = adamw.init(values)
  for _ in range(2):
    _, state = adamw.update(values, state, values)
  return state.inner


@pytest.mark.parametrize('grad_clip', (None, 1.0))
def test_the_slots_are_the_moments_and_their_count(grad_clip):
  state = state_after_two_steps(grad_clip=grad_clip)
  adam = find_state(state, optax.ScaleByAdamState)
  moments, iterates, counts, _ = AdamW().slots(state)
  assert (moments, iterates) == ((adam.mu, adam.nu), ())
  assert [int(count) for count in counts] == [2]


@pytest.mark.parametrize('grad_clip', (None, 1.0))
def test_slots_that_are_put_back(grad_clip):
  state = state_after_two_steps(grad_clip=grad_clip)
  inner = AdamW()
  (mu, nu), _, _, _ = inner.slots(state)
  halved = jax.tree_util.tree_map(lambda x: x / 2, mu)
  new = inner.with_slots(state, Slots((halved, nu), (), (jnp.int32(7),)))
  adam = find_state(new, optax.ScaleByAdamState)
  assert (adam.mu, adam.nu, adam.count) == (halved, nu, 7)
  same = inner.with_slots(state, inner.slots(state))
  structure = jax.tree_util.tree_structure
  assert structure(new) == structure(same) == structure(state)
  leaves = jax.tree_util.tree_leaves
  assert all(a is b for a, b in zip(leaves(same), leaves(state)))


def test_adamw_is_evaluated_as_it_is_trained():
  params = {'a': jnp.ones(2)}
  assert AdamW().eval_params(None, params) is params


def test_adamw_is_known_by_its_name():
  assert INNER.make(INNER.read('optimizer', 'adamw')) == AdamW()
  assert not INNER.parameters('adamw')


def test_map_states_replaces_one_type_only():
  state = clocked_adamw().init(jnp.ones(3))
  new = map_states(
    lambda adam: adam._replace(count=np.int32(5)), state, optax.ScaleByAdamState
  )
  assert find_state(new, optax.ScaleByAdamState).count == 5
  assert find_state(new, type(state.clock)).count == 0
  assert type(new) is type(state)
  same = map_states(lambda s: None, state, optax.EmaState)
  assert jax.tree_util.tree_structure(same) == jax.tree_util.tree_structure(
    state
  )


def test_find_state_needs_exactly_one():
  state = clocked_adamw().init(jnp.ones(3))
  for states, count in (((), 0), ((state, state), 2)):
    with pytest.raises(ValueError, match=f'has {count} states of type Scale'):
      find_state(states, optax.ScaleByAdamState)

"""AdamW at the learning rate of the cycle clock."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference
import reference_run
from reset_cycles.control import decide as cycle_control
from reset_cycles.optimizers import adamw as optimizer
from reset_cycles.schedule_params import HPARAMS, ScheduleParams
from reset_cycles.schedules import cycle_clock, lr_schedule, weight_decay

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
  plan = cycle_control.make_plan(STEP_HINT, params)
  schedules = lr_schedule.cycle_schedules(STEP_HINT, params.hparams, params)
  lengths = plan.nominal_lengths
  decays = weight_decay.decay_schedules(schedules, lengths, params)
  adamw = optimizer.adamw(params.hparams, schedules, lengths, decays)

  @jax.jit
  def update(values, state, grad):
    updates, state = adamw.update(grad, state, values)
    return optax.apply_updates(values, updates), state

  seen_at = {e[0]: cycle_control.Evaluation(*e) for e in EVALUATIONS}
  control, values, state = cycle_control.start(plan), start, adamw.init(start)
  history = []
  for step, grad in enumerate(grads):
    new = [seen_at[step]] if step in seen_at else []
    decision = cycle_control.decide(control, new, step, plan)
    control = decision.control
    if decision.action == cycle_control.RESET:
      clock = cycle_control.clock(control, step, plan)
      state = optimizer.map_states(
        lambda _, clock=clock: clock, state, cycle_clock.CycleClock
      )
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
  adam = optimizer.find_state(state, optax.ScaleByAdamState)
  clock = optimizer.find_state(state, cycle_clock.CycleClock)
  assert (int(adam.count), int(clock.count)) == (STEPS, STEPS)
  assert int(clock.cycle) == 2


def test_the_first_step_by_hand():
  # m / (1 - b1) = g and v / (1 - b2) = g^2: the update is the sign of g, plus
  # the decay. The rate is 0.01 from the start (no warm-up).
  hparams = dataclasses.replace(HPARAMS, learning_rate=0.01, weight_decay=0.5)
  adamw = optimizer.adamw(hparams, [optax.constant_schedule(0.01)], [10])
  start = jnp.float32([2.0, -2.0])
  updates, _ = adamw.update(jnp.float32([3.0, 0.5]), adamw.init(start), start)
  # -0.01 * (1 + 0.5 * 2) and -0.01 * (1 - 0.5 * 2)
  np.testing.assert_allclose(updates, [-0.02, 0.0], atol=1e-7)


def test_clipping_by_hand():
  # The global norm is 13; a limit of 6.5 halves what goes into the moments.
  grads = {'a': jnp.float32([3.0, 4.0]), 'b': jnp.float32([12.0])}
  one_minus_beta1 = 0.25
  for limit, factor in ((None, 1.0), (6.5, 0.5), (13.5, 1.0)):
    hparams = dataclasses.replace(
      HPARAMS, grad_clip=limit, one_minus_beta1=one_minus_beta1
    )
    adamw = optimizer.adamw(hparams, [optax.constant_schedule(0.1)], [10])
    _, state = adamw.update(grads, adamw.init(grads), grads)
    adam = optimizer.find_state(state, optax.ScaleByAdamState)
    expected = np.asarray([3.0, 4.0]) * factor * one_minus_beta1
    np.testing.assert_allclose(adam.mu['a'], expected, rtol=1e-6)


def test_state_holds_arrays_only():
  adamw = optimizer.adamw(HPARAMS, [optax.constant_schedule(0.1)], [10])
  leaves = jax.tree_util.tree_leaves(adamw.init(jnp.ones(3)))
  assert all(hasattr(leaf, 'dtype') for leaf in leaves)


def test_map_states_replaces_one_type_only():
  adamw = optimizer.adamw(HPARAMS, [optax.constant_schedule(0.1)], [10])
  state = adamw.init(jnp.ones(3))
  new = optimizer.map_states(
    lambda clock: clock._replace(count=np.int32(5)),
    state,
    cycle_clock.CycleClock,
  )
  assert optimizer.find_state(new, cycle_clock.CycleClock).count == 5
  assert optimizer.find_state(new, optax.ScaleByAdamState).count == 0
  assert type(new) is type(state)
  same = optimizer.map_states(lambda s: None, state, optax.EmaState)
  assert jax.tree_util.tree_structure(same) == jax.tree_util.tree_structure(
    state
  )


def test_find_state_needs_exactly_one():
  adamw = optimizer.adamw(HPARAMS, [optax.constant_schedule(0.1)], [10])
  state = adamw.init(jnp.ones(3))
  for states, count in (((), 0), ((state, state), 2)):
    with pytest.raises(ValueError, match=f'has {count} states of type Scale'):
      optimizer.find_state(states, optax.ScaleByAdamState)

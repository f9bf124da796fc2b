"""Muon with an average, beside its twin and by hand."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops, reference, runs
from helpers.trees import assert_close
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.clock import anchored_clock, packed
from reset_cycles.core.forms import TABLE, VECTOR, matrix
from reset_cycles.core.schedules import Cycle
from reset_cycles.optimizers.adamw import Adam, AdamW, Rms
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)
from reset_cycles.optimizers.step import RunStart, Step
from reset_cycles.schedule_params import THESIS

STEPS = 60
MUON = ScheduleFreeMuon()
BETA2 = 0.9955159689799007


# Leaves in their order.
STARTS = {
  'attention': (4, 2, 2),
  'bias': (2, 2),
  'kernel': (3, 6),
  'norm': (5,),
}
SIDES = [(4, 4), None, (3, 6), None]
FORMS = (matrix((0,), (1, 2)), VECTOR, matrix((0,), (1,)), VECTOR)


def part_of(state, name):
  """What Muon keeps of matrices, or of the rest."""
  parts = state.inner[1].inner_states
  return parts[name].inner_state[1]


def momentum_of(state):
  """Of each matrix; what is none has no array here."""
  return part_of(state, 'matrix').trace


def squares_of(state):
  """The mean of squared gradients of each array that is no matrix."""
  return part_of(state, 'rest').nu


def started(dtype=jnp.float32):
  rng = np.random.default_rng(1)
  return {
    name: jnp.asarray(rng.normal(size=shape), dtype)
    for name, shape in STARTS.items()
  }


def gradients(count=STEPS):
  rng = np.random.default_rng(2)
  return [
    {
      name: jnp.asarray(0.3 * rng.normal(size=shape), jnp.float32)
      for name, shape in STARTS.items()
    }
    for _ in range(count)
  ]


def transformation(optimizer, cycles, forms=FORMS, size=1.0):
  start = 0, 0.0, cycles[0].steps, 0, cycles
  clock = packed(anchored_clock(*start, size=size))
  begun = clock, np.zeros(4, np.int32)
  return clocked(optimizer.build, cycles, begun, Step(0.0, forms=forms))


# The array of two rows is looked up.
WITH_TABLE = (FORMS[0], TABLE, *FORMS[2:])


def planned(steps=STEPS, **fields):
  cycle = Cycle(0.05, warmup_factor=0.1, **fields)
  return jax_lr_schedule(steps, [cycle], 1.0).cycles


@pytest.mark.parametrize(
  ('changes', 'size'),
  (
    ({}, 1.0),
    # From step 8 on the steps of the table fall.
    ({'fall_start': 7.5}, 1.0),
    ({'momentum': 0.5, 'r': 3.0}, 0.25),
    ({'coherence': 0.0, 'weight_decay': 0.02, 'decay_lr_power': 0.0}, 0.25),
    ({'coherence': 0.5, 'decay_lr_power': 0.5}, 0.25),
    # From a rate of .029 on a step would take more than a whole weight away.
    ({'weight_decay': 30.0}, 0.025),
    # From step 8 on the momentum grows, to .93.
    ({'growth_start': 7.5}, 0.25),
    # The table has more of what the epochs add.
    ({'fall_start': 7.5, 'weight_decay': 2.0}, 1.0),
  ),
)
@pytest.mark.parametrize('epochs', (1.0, 2.5))
def test_muon_agrees_with_its_twin(changes, size, epochs):
  optimizer = ScheduleFreeMuon(beta2=0.9, **changes)
  cycles = [c._replace(decay_factor=epochs) for c in planned()]
  tx = transformation(optimizer, cycles, WITH_TABLE, size)
  params = started()
  starts = [np.asarray(leaf) for leaf in params.values()]
  state, update = tx.init(params), jax.jit(tx.update)
  rates = [
    reference.cycle_rate(t, STEPS, cycles[0].cycle) for t in range(STEPS)
  ]
  grads = [list(g.values()) for g in gradients()]
  numbers = reference.numbers_in(optimizer)
  of = SIDES, size, {1}, epochs
  twin = reference.muon(starts, grads, rates, numbers, *of)
  for grad, (_, x) in zip(gradients(), twin):
    updates, state = update(grad, state, params)
    params = optax.apply_updates(params, updates)
    for found, expected in zip(params.values(), x):
      np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
  point = optimizer.gradient_point(state.inner, params)
  for found, expected in zip(point.values(), twin[-1][0]):
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
  # z and one moment for each number of the model, two counts and a sum; with a
  # coherence the mean norm of each of the two matrices.
  inner = state.inner
  sizes = [np.size(leaf) for leaf in jax.tree_util.tree_leaves(inner)]
  norms = 2 * (optimizer.inner.coherence > 0)
  assert sum(sizes) == 3 + norms + 2 * sum(start.size for start in starts)


def test_weights_are_held_at_the_root_of_their_first_size():
  """By hand: on random steps of size rate, where rate = share * size.

  w^2 grows by rate^2 and shrinks by the factor (1 - rate decay)^2, where decay
  is .3 rate / size: it comes to rest at rate / (.6 share), up to the square of
  the share.
  """
  optimizer, form = ScheduleFreeMuon().inner, (matrix((0,), (1,)),)
  (factor,) = np.abs(reference.orthogonalised(np.ones((1, 1)))).ravel()
  for size in (0.25, 1.0, 4.0):
    tx = optimizer.build(Step(0.01 * size, forms=form, size=size))
    state = tx.init(jnp.ones((1, 1)))
    step, _ = tx.update(jnp.ones((1, 1)), state, jnp.ones((1, 1)))
    shrinks = -float(step[0, 0]) - 0.01 * size * factor
    assert shrinks == pytest.approx(0.3 * 0.01**2 * size, rel=2e-3)
    rests = (0.01 * size) ** 2 / (2 * shrinks)
    assert rests == pytest.approx(size / 0.6, rel=2e-3)


def test_a_weight_decay_takes_no_more_than_all_of_a_weight():
  """By hand: 3 times a rate of 2 would take six times the weight."""
  optimizer = Muon(weight_decay=3.0, rest_share=0.5)
  tx = optimizer.build(Step(2.0, forms=(matrix((0,), (1,)), VECTOR)))
  params = jnp.full((2, 2), 8.0), jnp.full(2, 8.0)
  grads = jnp.zeros((2, 2)), jnp.zeros(2)
  steps, _ = tx.update(grads, tx.init(params), params)
  np.testing.assert_allclose(steps[0], np.full((2, 2), -8.0))
  np.testing.assert_allclose(steps[1], np.full(2, -4.0))  # half of the rate
  # At a rate of 0 nothing is divided by it.
  still = optimizer.build(Step(0.0, forms=(matrix((0,), (1,)), VECTOR)))
  steps, _ = still.update(grads, still.init(params), params)
  assert not any(np.any(step) for step in steps)


def test_no_weight_decay_is_none_whatever_the_rate_is_over_the_size():
  """4 over 1e-38 is more than the 3.4e38 of float32: by hand, all is moved."""
  forms = matrix((0,), (1,)), VECTOR
  params = jnp.full((2, 2), 8.0), jnp.full(2, 8.0)
  grads = jnp.zeros((2, 2)), jnp.zeros(2)
  for decay, expected in ((0.0, 0.0), (1e-3, -8.0)):
    optimizer = Muon(weight_decay=decay, decay_lr_power=1.0, rest_share=1.0)
    tx = optimizer.build(Step(jnp.float32(4.0), forms=forms, size=1e-38))
    for step in tx.update(grads, tx.init(params), params)[0]:
      np.testing.assert_allclose(step, np.full(step.shape, expected))


def test_its_size_is_that_of_the_matrices():
  """rms(W) sqrt(fan_in), of the second row's numbers 3 sqrt(2)."""
  params = {'kernel': np.full((2, 5), 3.0), 'table': np.full((2, 5), 7.0)}
  start = RunStart(params, (matrix((0,), (1,)), VECTOR))
  inner = Muon()
  for optimizer in (inner, Averaged(inner)):
    assert optimizer.size(start) == pytest.approx(3 * math.sqrt(2))
  for params in ({}, {'kernel': np.zeros((2, 2))}, {'bias': np.ones(2)}):
    assert inner.size(RunStart(params)) == 1.0
  assert AdamW().size(start) == 1.0


def test_a_step_is_in_proportion_to_the_coherence_of_the_gradients():
  """Each matrix of a stack by itself, from gradients that turn round or not."""
  rate, form = 0.5, (matrix((1,), (2,), stacked=(0,)),)
  build = lambda power: Muon(
    momentum=0.5, coherence=power, weight_decay=0.0
  ).build(Step(rate, forms=form))
  params = jnp.zeros((2, 2, 2))
  eye = np.eye(2)
  # The first matrix's gradients agree; the second's change their sign.
  series = [np.stack([eye, sign * 2 * eye]) for sign in (1.0, -1.0, 1.0)]
  state, plain = build(1.0).init(params), build(0.0).init(params)
  found = []
  for grad in map(jnp.float32, series):
    step, state = build(1.0).update(grad, state, params)
    whole, plain = build(0.0).update(grad, plain, params)
    found.append(np.linalg.norm(step, axis=(1, 2)))
    found[-1] /= np.linalg.norm(whole, axis=(1, 2))
  # m of the second: 1, -1/2, 3/4; n: 1, 3/2, 7/4.
  expected = [[1, 1], [1, 1 / 3], [1, 3 / 7]]
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_weight_decay_follows_the_rate_and_the_coherence():
  """rate (1 / 2), times 3 times its square, times the coherence."""
  forms = matrix((1,), (2,), stacked=(0,)), VECTOR
  build = lambda decay: Muon(
    **{'momentum': 0.5, 'coherence': 1.0, 'weight_decay': decay},
    **{'decay_lr_power': 2.0, 'rest_share': 0.25},
  ).build(Step(0.5, forms=forms))
  params = jnp.full((2, 2, 2), 8.0), jnp.full(2, 8.0)
  state, plain = build(3.0).init(params), build(0.0).init(params)
  found = []
  for sign in (1.0, -1.0, 1.0):
    matrices = jnp.stack([jnp.eye(2), 2 * sign * jnp.eye(2)])
    grads = matrices, jnp.ones(2)
    step, state = build(3.0).update(grads, state, params)
    without, plain = build(0.0).update(grads, plain, params)
    found.append([np.max(a - b, axis=-1) for a, b in zip(step, without)])
  # Coherences as above; -(1 / 2) (3 / 4) 8 = -3.
  for (stack, vector), second in zip(found, (1, 1 / 3, 3 / 7)):
    expected = [[-3, -3], [-3 * second, -3 * second]]
    np.testing.assert_allclose(stack, expected, rtol=1e-4)
    np.testing.assert_allclose(vector, -3 / 4, rtol=1e-4)


@pytest.mark.parametrize('size', (1e30, 1e20, 1e-20, 1e-30))
def test_a_gradient_beyond_the_squares_of_float32(size):
  """Neither it, nor what follows it, is lost; tiny gradients agree as others."""
  tx = Muon(coherence=1.0, weight_decay=0.0).build(
    Step(0.5, forms=(matrix((0,), (1,)),))
  )
  params = jnp.zeros((4, 4))
  state, lengths = tx.init(params), []
  for factor in (1.0, size, 1.0) if size > 1 else (size, size, size):
    step, state = tx.update(factor * jnp.eye(4), state, params)
    lengths.append(float(jnp.linalg.norm(step)))
  assert np.isfinite(lengths).all() and min(lengths) > 0.5


def test_parameters_are_needed():
  tx = Muon().build(Step(0.5))
  params = jnp.zeros((4, 4))
  with pytest.raises(ValueError, match='params=None: must be the parameters'):
    tx.update(params, tx.init(params))


def test_the_coherence_of_noise():
  """Of gradients without a mean it is the root of (1 - mu) / (1 + mu): 1/3."""
  form = (matrix((0,), (1,)),)
  tx = Muon(coherence=1.0).build(Step(0.5, forms=form))
  params, rng = jnp.zeros((64, 64)), np.random.default_rng(0)
  state, update, ratios = tx.init(params), jax.jit(tx.update), []
  for _ in range(60):
    grad = jnp.asarray(rng.normal(size=(64, 64)), jnp.float32)
    state = update(grad, state, params)[1]
    kept = state[1].inner_states['matrix'].inner_state[1]
    ratios.append(np.linalg.norm(kept.trace) / kept.norms)
  np.testing.assert_allclose(np.mean(ratios[20:]), 1 / 3, rtol=0.01)


def test_the_momentum_grows_with_the_root_of_the_steps():
  """By hand, of 1/2 up to two steps: 3/4 in step 8, where 1 - mu has halved.

  Gradients of 1 after a zero: m is 1 less the product of all mu since. At a
  rate of 0 it stays.
  """
  form = (matrix((0,), (1,)),)
  optimizer = Muon(momentum=0.5, growth_start=2.0)
  params = jnp.ones((1, 1))
  state = optimizer.build(Step(0.5, forms=form)).init(params)
  means = []
  for taken, rate in enumerate((0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5)):
    tx = optimizer.build(Step(rate, taken=taken, forms=form))
    state = tx.update(jnp.ones((1, 1)), state, params)[1]
    kept = state[1].inner_states['matrix'].inner_state[1]
    means.append(float(kept.trace[0, 0]))
  decays = [1 - 0.5 * math.sqrt(2 / max(t, 2)) for t in range(1, 9)]
  assert decays[:2] == [0.5, 0.5] and decays[-1] == 0.75
  decays[2] = 1.0
  np.testing.assert_allclose(means, 1 - np.cumprod(decays), rtol=1e-6)


def test_the_steps_of_a_table_fall_as_the_fourth_root():
  """By hand, from 1 / 2 of the rate: to 1 / 4 in step 32, and not of a vector.

  Adam's direction of gradients of 1 is 1.
  """
  optimizer = Muon(weight_decay=0.0, rest_share=0.5, fall_start=2.0)
  params = {'table': jnp.zeros((1, 1)), 'vector': jnp.zeros(1)}
  forms = (TABLE, VECTOR)
  grads = {name: jnp.ones_like(leaf) for name, leaf in params.items()}
  state = optimizer.build(Step(0.1, forms=forms)).init(params)
  steps = {'table': [], 'vector': []}
  for taken in range(32):
    tx = optimizer.build(Step(0.1, taken=taken, forms=forms))
    updates, state = tx.update(grads, state, params)
    for name, leaf in updates.items():
      steps[name].append(-float(leaf.sum()) / 0.1)
  fall = [0.5 * (2 / max(t, 2)) ** 0.25 for t in range(1, 33)]
  assert fall[:2] == [0.5, 0.5] and fall[-1] == 0.25
  np.testing.assert_allclose(steps['table'], fall, rtol=1e-5)
  np.testing.assert_allclose(steps['vector'], 32 * [0.5], rtol=1e-5)


def test_the_factor_of_the_epochs_by_hand():
  """It ends where it holds a matrix at a norm of 2: 1 / (2 * .3 * .16)."""
  of = lambda **numbers: functools.partial(
    Muon(**numbers).epochs_factor, share=0.16
  )
  follows = of(weight_decay=0.3, decay_lr_power=1.0, least_norm=2.0)
  epochs = np.array([0.2, 1.0, 4.5, 100.0])
  np.testing.assert_allclose(
    follows(epochs), [1.0, 1.0, 4.5, 1 / 0.096], rtol=1e-6
  )
  # A decay that is as strong already, or none, stays as it is.
  assert of(weight_decay=5.0, least_norm=2.0)(100.0) == 1.0
  assert of(weight_decay=0.0, least_norm=2.0)(100.0) == 1.0
  # By default it does not follow the epochs; in force it does.
  assert of(weight_decay=0.3, decay_lr_power=1.0)(100.0) == 1.0
  in_force = MUON.epochs_factor
  np.testing.assert_allclose(in_force(100.0, 0.16), 1 / 0.24, rtol=1e-6)


def test_what_is_no_matrix_steps_as_with_schedule_free_adamw():
  """At rest_share of the rate; c does not depend on a factor on all rates."""
  same = {'one_minus_beta1': 0.2, 'r': 1.0, 'beta2': 0.9, 'weight_decay': 0.1}
  left_to = ScheduleFreeAdamW(**same)
  params = {name: started()[name] for name in ('bias', 'norm')}
  found = []
  for optimizer, rate in (
    (ScheduleFreeMuon(rest_share=0.5, decay_lr_power=0.0, **same), 0.2),
    (left_to, 0.1),
  ):
    first = Step(rate, forms=(VECTOR, VECTOR))
    x, state = params, optimizer.build(first).init(params)
    for i, grad in enumerate(gradients(9)):
      told = Step(rate * (1.0, 0.5, 2.0)[i % 3], forms=(VECTOR, VECTOR))
      given = {name: grad[name] for name in params}
      updates, state = optimizer.build(told).update(given, state, x)
      x = optax.apply_updates(x, updates)
    found.append(x)
  assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_adam_may_take_the_rest_as_in_the_published_muon():
  """At a quarter of the rate it is AdamW at that rate."""
  numbers = {'one_minus_beta1': 0.25, 'beta2': 0.75, 'eps': 0.125}
  params = {'norm': started()['norm']}
  ends = []
  for optimizer, rate in (
    (Muon(weight_decay=0.5, rest=Adam(**numbers), rest_share=0.25), 0.4),
    (AdamW(weight_decay=0.5, **numbers), 0.1),
  ):
    tx = optimizer.build(Step(rate))
    x, state = params, tx.init(params)
    for grad in gradients(5):
      updates, state = tx.update({'norm': grad['norm']}, state, x)
      x = optax.apply_updates(x, updates)
    ends.append(x)
  assert_close(ends[0], ends[1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize('generation', runs.GENERATIONS)
def test_a_run_on_eight_devices(generation, compilations):
  """Both generations: one program, and the same on every device."""
  settings = dataclasses.replace(THESIS, optimizer=ScheduleFreeMuon())
  driver = runs.newly_set_up(settings, generation, evaluations={}, step_hint=6)
  driver.run(until=3)
  with compilations() as compiled:
    driver.run(until=9)  # beyond two resets
  assert compiled == []
  opt_state = driver.optimizer_state[0].opt_state.inner
  for leaf in jax.tree_util.tree_leaves((driver.params, opt_state)):
    copies = [np.asarray(shard.data) for shard in leaf.addressable_shards]
    assert len(copies) == 8
    for copy in copies:
      np.testing.assert_array_equal(copy, copies[0])
    assert np.isfinite(copies[0]).all()


@pytest.mark.parametrize('bad', (np.nan, -np.inf, 1e30))
def test_of_what_is_no_matrix_a_bad_entry_is_left_out(bad):
  """By hand, beta2 of 1/2: v is 1/2, as it was, and 3/4 after a further 1.

  The square of 1e30 is not finite.
  """
  tx = Rms(beta2=0.5, eps=1e-12).direction(Step(0.5))
  state, found = tx.init(jnp.zeros(2)), []
  for entry, other in ((1.0, 1.0), (bad, 2.0), (1.0, 1.0)):
    direction, state = tx.update(jnp.float32([entry, other]), state)
    found.append(direction)
  # v / (1 - 1 / 2^t): 1, 1; 2/3, 3; 6/7, 13/7.
  expected = [[1, 1], [0, 2 / 3**0.5], [(7 / 6) ** 0.5, (7 / 13) ** 0.5]]
  np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize('bad', (np.nan, np.inf, 0.0))
def test_a_matrix_with_a_bad_gradient_steps_by_its_momentum(bad):
  params = started()
  optimizer = ScheduleFreeMuon(weight_decay=0.0)
  tx = optimizer.build(Step(jnp.float32(0.1), forms=FORMS))
  update = jax.jit(tx.update)
  first, *others = gradients(4)
  _, state = update(first, tx.init(params), params)
  before = np.asarray(momentum_of(state)['kernel'])
  kernel = jnp.full(STARTS['kernel'], bad, jnp.float32)
  updates, state = update({**others[0], 'kernel': kernel}, state, params)
  params = optax.apply_updates(params, updates)
  kept = 0.8 * before if bad == 0 else before
  np.testing.assert_allclose(momentum_of(state)['kernel'], kept, rtol=1e-6)
  for grad in others[1:]:
    updates, state = update(grad, state, params)
    params = optax.apply_updates(params, updates)
  for leaf in jax.tree_util.tree_leaves((params, state)):
    assert np.isfinite(leaf).all()
  # Nothing was ever known of a matrix whose first gradient is 0.
  nothing = jax.tree_util.tree_map(jnp.zeros_like, first)
  updates, state = update(nothing, tx.init(params), params)
  assert not any(np.asarray(leaf).any() for leaf in updates.values())


def test_a_bias_of_two_axes_is_a_matrix_unless_told_otherwise():
  """After one step from a gradient g: .2 g of a matrix, (1 - b2) g^2 elsewhere."""
  params, grad = started(), gradients(1)[0]
  g = np.asarray(grad['bias'])
  for forms, is_one in ((FORMS, False), (None, True)):
    tx = MUON.build(Step(0.1, forms=forms))
    _, state = jax.jit(tx.update)(grad, tx.init(params), params)
    found = (momentum_of if is_one else squares_of)(state)['bias']
    expected = 0.2 * g if is_one else (1 - BETA2) * np.square(g)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_loop_says_which_parameters_are_matrices():
  """Without a word it is the shapes."""
  settings = dataclasses.replace(loops.CHAIN, optimizer=MUON)
  for matrices, expected in (
    (None, {'hidden': True, 'output': True}),
    (lambda path: 'hidden' in path, {'hidden': True, 'output': False}),
  ):
    cycles = loops.make(settings, matrices=matrices)
    state, _ = loops.train(cycles, loops.start(cycles), {4: (1.0, 0.4)}, 0, 9)
    momentum = momentum_of(state.opt_state.inner)
    found = {k: hasattr(momentum[k]['kernel'], 'shape') for k in expected}
    assert found == expected
    assert np.isfinite(loops.loss_of(state.params, np.ones((3, 8), 'f')))
  with pytest.raises(ValueError, match='^matrices=3 .*: must be a function of'):
    loops.make(settings, matrices=3)


def test_it_learns():
  """A quadratic in 300 steps, to a hundredth of where it began."""
  rng = np.random.default_rng(0)
  goal = jnp.asarray(rng.normal(size=(6, 6)), jnp.float32)
  cycles = planned(steps=300)
  optimizer = ScheduleFreeMuon(weight_decay=0.0, r=2.0)
  tx = transformation(optimizer, cycles, forms=None)
  params = {'w': jnp.zeros((6, 6))}
  state = tx.init(params)

  @jax.jit
  def step(params, state):
    point = optimizer.gradient_point(state.inner, params)
    grads = jax.grad(lambda p: jnp.sum((p['w'] - goal) ** 2))(point)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state

  for _ in range(300):
    params, state = step(params, state)
  away = np.abs(np.asarray(params['w'] - goal))
  assert np.square(away).sum() < 0.01 * float(jnp.sum(goal**2))


@pytest.mark.parametrize('shape', (1.0, 2.0))
@pytest.mark.parametrize('rest_share', (0.0, 0.5))
def test_the_epochs_shrink_a_table_by_hand(rest_share, shape):
  """At d = .1 and 3 epochs .2 (.5 d + 2 d / .5) = .09 of it; of a vector .03.

  With a share of 0 neither moves. The gradient is 0. A cycle's own shape is a
  factor on d.
  """
  optimizer = Muon(weight_decay=0.1, rest_share=rest_share)
  params = {'table': jnp.ones((1, 1)), 'vector': jnp.ones(1)}
  step = Step(0.2, shape, forms=(TABLE, VECTOR), decay_factor=3.0)
  tx = optimizer.build(step)
  zeros = {name: jnp.zeros_like(leaf) for name, leaf in params.items()}
  updates, _ = tx.update(zeros, tx.init(params), params)
  found = [float(updates[name].sum()) for name in ('table', 'vector')]
  expected = [-0.09 * shape, -0.03 * shape] if rest_share else [0.0, 0.0]
  np.testing.assert_allclose(found, expected, rtol=1e-6)

"""What resets do to the states of optimizers of one's own, in a loop."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops
from helpers.trees import assert_same, host
from reset_cycles.loop import State
from reset_cycles.soft_reset import FullReset

map_ = jax.tree_util.tree_map
KEY = jax.random.PRNGKey(0)


class Average(NamedTuple):
  norm: Any


def norm_of(tree):
  return jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree_util.tree_leaves(tree)))


def clipped():
  """Clips to twice the mean norm of the gradients before."""

  def update(grads, state, params=None):
    norm = norm_of(grads)
    share = jnp.minimum(1.0, 2 * state.norm / (norm + 1e-6))
    mean = 0.9 * state.norm + 0.1 * norm
    return map_(lambda g: g * share, grads), Average(mean)

  init = lambda params: Average(jnp.ones(()))
  return optax.GradientTransformation(init, update)


def broken_at(cycles, state, broken, steps):
  """Trains, with a gradient of NaN at one step; evaluates after every 4."""
  tape = []
  for step in range(steps):
    state, events = cycles.before_step(step, state)
    tape += events
    factor = math.nan if step == broken else 1.0
    grads = map_(lambda p, f=factor: (p - 1) * f, state.params)
    updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
    state = State(optax.apply_updates(state.params, updates), opt)
    if step % 4 == 3:
      error = float(norm_of(map_(lambda p: p - 1, state.params)))
      state, events = cycles.after_evaluation(step + 1, error, error, state)
      tape += events
  return state, tape


@pytest.mark.parametrize('broken', [1, 5])
def test_one_batch_of_nan_does_not_outlive_a_full_reset(broken):
  """The mean norm is NaN with the model, and begins anew with it."""
  optimizer = lambda rate: optax.chain(clipped(), optax.adam(rate))
  cycles = loops.make(loops.SWITCHING, optimizer=optimizer)
  state, tape = broken_at(cycles, loops.start(cycles), broken, 12)
  full = [e for e in tape if e.kind == 'reset' and e.numbers['tau'] == 1]
  assert [event.step for event in full] == [4 * (broken // 4 + 1)]
  for leaf in jax.tree_util.tree_leaves((state.params, state.opt_state.inner)):
    assert np.all(np.isfinite(leaf))


def test_a_mean_norm_that_is_nan_is_seen_where_the_model_is_finite():
  """By the look at a cycle's end, before it can break the model."""
  optimizer = lambda rate: optax.chain(clipped(), optax.adam(rate))
  cycles = loops.make(optimizer=optimizer)
  state, _ = loops.train(cycles, loops.start(cycles), {2: (1.0, 0.4)}, 0, 4)
  one, *others = state.opt_state.inner
  inner = (one._replace(norm=one.norm * math.nan), *others)
  opt = state.opt_state._replace(inner=inner)
  state, events = cycles.before_step(4, state._replace(opt_state=opt))
  assert events[0].reason.endswith('the model is not finite')
  assert state.opt_state.inner[0].norm == 1


def test_what_begins_at_infinity_is_no_broken_model():
  """The least norm so far, as before any step."""

  def least(rate):
    def update(grads, state, params=None):
      low = jnp.minimum(state.norm, norm_of(grads))
      return map_(lambda g: -rate * g / (1 + low), grads), Average(low)

    init = lambda params: Average(jnp.float32(jnp.inf))
    return optax.GradientTransformation(init, update)

  chain = dataclasses.replace(loops.CHAIN, reset=FullReset())
  cycles = loops.make(chain, optimizer=least)
  state, tape = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  inf = state.opt_state.inner._replace(norm=jnp.float32(jnp.inf))
  opt = state.opt_state._replace(inner=inf)
  state, events = cycles.before_step(4, state._replace(opt_state=opt))
  assert 'not finite' not in events[0].reason


@pytest.mark.parametrize('names', [('w', 'b'), ('w1', 'b1')])
def test_a_schedule_goes_on_whatever_the_parameters_are_called(names):
  """b1 of step 12 is .5 + .45 * 12 / 30, also after a full reset at step 4."""
  chain = dataclasses.replace(loops.CHAIN, reset=FullReset())
  momentum = optax.linear_schedule(0.5, 0.95, 30)
  optimizer = optax.inject_hyperparams(optax.adam)(
    learning_rate=0.0, b1=momentum
  )
  make = lambda key: dict(
    zip(names, (jax.random.normal(key, (4, 8)), jnp.zeros(8)))
  )
  cycles = loops.make(chain, optimizer=optimizer, make_params=make)
  state, tape = broken_at(cycles, loops.start(cycles, make), None, 13)
  assert [e.numbers['tau'] for e in tape if e.kind == 'reset'] == [1.0] * 3
  b1 = state.opt_state.inner.hyperparams['b1']
  np.testing.assert_allclose(b1, 0.5 + 0.45 * 12 / 30, rtol=1e-6)


class Gaussian(NamedTuple):
  mu: Any
  scale_tril: Any


@pytest.mark.parametrize(
  'kind', [Gaussian, lambda *of: dict(zip('ab', of)), lambda *of: of]
)
def test_parameters_may_be_called_as_moments_are(kind):
  """A soft reset by .5 shrinks Adam's moments by a quarter."""
  make = lambda key: kind(jax.random.normal(key, (4,)), 0.1 * jnp.eye(4))
  cycles = loops.make(optimizer=optax.adam, make_params=make)
  state, _ = broken_at(cycles, loops.start(cycles, make), None, 3)
  state, _ = cycles.before_step(3, state)
  updates, opt = cycles.optimizer.update(
    state.params, state.opt_state, state.params
  )
  before = host(opt.inner[0])
  state = State(optax.apply_updates(state.params, updates), opt)
  state, events = cycles.after_evaluation(4, 1.0, 0.4, state)
  assert [e.numbers['tau'] for e in events if e.kind == 'reset'] == [0.5]
  after = host(state.opt_state.inner[0])
  assert after.count == before.count == 4
  for name in ('mu', 'nu'):
    old, new = (
      jax.tree_util.tree_leaves(getattr(s, name)) for s in (before, after)
    )
    for a, b in zip(old, new):
      np.testing.assert_allclose(b, 0.75 * a, rtol=1e-6)


def slow(rate):
  """Steps with z; x, the parameters, follow it."""

  def update(grads, z, params):
    z = map_(lambda z, g: z - rate * g, z, grads)
    return map_(lambda z, x: 0.5 * (z - x), z, params), z

  init = lambda params: map_(lambda x: jnp.array(x, copy=True), params)
  return optax.GradientTransformation(init, update)


def test_an_iterate_of_a_frozen_parameter_stays_with_it():
  """In a soft reset to the last bit; in a full one it is that parameter."""
  is_body = lambda path: path.startswith("['hidden']")
  cycles = loops.make(loops.SWITCHING, optimizer=slow, frozen=is_body)
  state = loops.start(cycles)
  state, _ = loops.train(cycles, state, {}, 0, 4)
  before = host(state)
  state, events = cycles.after_evaluation(4, 1.0, 0.4, state)
  assert 0 < events[-2].numbers['tau'] < 1
  assert_same(state.params['hidden'], before.params['hidden'])
  assert_same(state.opt_state.inner['hidden'], before.opt_state.inner['hidden'])
  state, _ = loops.train(cycles, state, {}, 4, 6)
  body = host(state.params['hidden'])
  broken = map_(lambda x: x * math.nan, state.opt_state.inner)
  opt = state.opt_state._replace(inner=broken)
  state = state._replace(opt_state=opt)
  state, events = cycles.after_evaluation(6, math.nan, math.nan, state)
  assert events[-2].numbers['tau'] == 1
  assert_same(state.params['hidden'], body)
  assert_same(state.opt_state.inner, state.params)


def test_a_monitor_is_refused_by_name():
  if not hasattr(optax, 'monitor'):
    pytest.skip('this optax has no monitor')
  optimizer = lambda rate: optax.chain(
    optax.monitor({'norm': norm_of}), optax.adam(rate)
  )
  said = (
    r"its update changes the shape or the entries of \[0\].measurements\['no"
  )
  with pytest.raises(ValueError, match=said):
    loops.make(optimizer=optimizer)


def test_what_takes_its_rate_for_a_schedule_is_refused():
  def optimizer(learning_rate):
    negative = lambda count: -learning_rate(count)
    return optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(negative))

  said = 'optimizer=<function .*optimizer> .*object is not callable'
  with pytest.raises(ValueError, match=said):
    loops.make(optimizer=optimizer)


@pytest.mark.parametrize(
  'kind',
  [
    AssertionError,
    KeyError,
    NotImplementedError,
    TypeError,
    ValueError,
    ZeroDivisionError,
  ],
)
@pytest.mark.parametrize('where', ['factory', 'init', 'update'])
def test_an_optimizer_says_itself_what_is_wrong(kind, where):
  def optimizer(rate):
    def fails(here, result):
      if here == where:
        raise kind('only on Mondays')
      return result

    return fails(
      'factory',
      optax.GradientTransformation(
        lambda params: fails('init', ()),
        lambda grads, state, params=None: fails(
          'update', (map_(lambda g: rate * g, grads), ())
        ),
      ),
    )

  with pytest.raises(ValueError, match='^optimizer=.*only on Mondays') as error:
    loops.make(optimizer=optimizer)
  assert isinstance(error.value.__cause__, kind)


def test_the_state_of_an_optimizer_may_be_one_array():
  """The running mean of the gradients' norm; a full reset begins it anew."""

  def optimizer(rate):
    def update(grads, norm, params=None):
      squares = [jnp.sum(g**2) for g in jax.tree_util.tree_leaves(grads)]
      norm = 0.9 * norm + 0.1 * jnp.sqrt(sum(squares))
      scale = lambda g: -rate * g / norm
      return jax.tree_util.tree_map(scale, grads), norm

    return optax.GradientTransformation(lambda _: jnp.ones(()), update)

  cycles = loops.make(optimizer=optimizer)
  state, _ = loops.train(cycles, loops.start(cycles), {2: (1.0, 0.4)}, 0, 6)
  assert np.shape(state.opt_state.inner) == () and state.opt_state.inner > 0

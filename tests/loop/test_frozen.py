"""Parameters that a loop does not train are left alone by every reset."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import documents, loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles.loop import Cycles, State
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)

BODY = ("['hidden']['bias']", "['hidden']['kernel']")
LABELS = {'hidden': 'no', 'output': 'yes'}
MASK = {'hidden': True, 'output': False}
adapters = lambda rate: optax.multi_transform(
  {'no': optax.set_to_zero(), 'yes': optax.adam(rate)}, LABELS
)


def only(rate):
  """Adam of the masked part; the gradients of the rest pass as they are."""
  return optax.masked(optax.adam(rate), {'hidden': False, 'output': True})


FROZEN = {
  'multi_transform': adapters,
  'clipped': lambda rate: optax.chain(
    optax.clip_by_global_norm(1.0), adapters(rate)
  ),
  'MultiSteps': lambda rate: optax.MultiSteps(adapters(rate), 2),
  'mask before': lambda rate: optax.chain(
    optax.masked(optax.set_to_zero(), MASK), optax.adam(rate)
  ),
  'mask after': lambda rate: optax.chain(
    optax.adamw(rate), optax.masked(optax.set_to_zero(), MASK)
  ),
}


@pytest.mark.parametrize('name', FROZEN)
def test_what_an_optimizer_does_not_train_is_kept(name):
  """After 4 steps a soft reset by .5, after 8 a full one."""
  cycles = loops.make(optimizer=FROZEN[name])
  assert cycles.frozen == BODY
  state = loops.start(cycles)
  body = host(state.params['hidden'])
  state, _ = loops.train(cycles, state, {}, 0, 4)
  old = host(state.params['output'])
  state, events = cycles.after_evaluation(4, 1.0, 0.4, state)
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 2))['output']
  blend = jax.tree_util.tree_map(lambda a, b: (a + b) / 2, old, host(fresh))
  assert_close(state.params['output'], blend)
  assert_same(state.params['hidden'], body)
  state, _ = loops.train(cycles, state, {}, 4, 8)
  state, events = cycles.after_evaluation(8, math.nan, math.nan, state)
  assert 'FullReset' in events[1].reason
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 3))['output']
  assert_same(state.params['output'], fresh)
  assert_same(state.params['hidden'], body)


@pytest.mark.parametrize('optimizer', [None, optax.adam, only])
def test_frozen_names_them(optimizer):
  """Where a loss stops their gradient, no optimizer can tell."""
  is_body = lambda path: path.startswith("['hidden']")
  cycles = loops.make(loops.SWITCHING, optimizer=optimizer, frozen=is_body)
  assert cycles.frozen == BODY
  state = loops.start(cycles)
  before = host(state)
  state, events = cycles.after_evaluation(0, math.nan, math.nan, state)
  assert events[-2].numbers['tau'] == 1
  assert_same(state.params['hidden'], before.params['hidden'])
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 2))
  assert_same(state.params['output'], fresh['output'])
  assert loops.make(frozen=lambda path: False).frozen == ()


def taken(cycles, state):
  """A step by the parameters themselves, as gradients of the body as well."""
  grads = cycles.gradient_point(state)
  updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
  return State(optax.apply_updates(state.params, updates), opt)


OWN = {
  'adamw': AdamW(grad_clip=0.1),
  'ema': EMA(AdamW()),
  'schedule_free': ScheduleFreeAdamW(),
  'muon': ScheduleFreeMuon(),
}
FLOAT32, HALF = jnp.float32, jnp.bfloat16


@pytest.mark.parametrize(
  ('name', 'dtype'),
  [*((name, FLOAT32) for name in OWN), ('adamw', HALF), ('muon', HALF)],
)
def test_the_chains_own_optimizer_leaves_what_is_frozen_alone(name, dtype):
  """It trains the rest as if nothing else were there, through a soft reset."""
  chain = dataclasses.replace(loops.CHAIN, optimizer=OWN[name])
  typed = lambda tree: jax.tree_util.tree_map(lambda x: x.astype(dtype), tree)
  init = lambda key: typed(loops.init(key))
  head = lambda key: {'output': init(key)['output']}
  cycles = loops.make(
    chain,
    make_params=init,
    frozen=lambda path: path.startswith("['hidden']"),
    matrices=lambda path: 'output' in path,
  )
  alone = loops.make(chain, make_params=head)
  state, other = loops.start(cycles, init), loops.start(alone, head)
  body = host(state.params['hidden'])
  for step in range(6):
    state, _ = cycles.before_step(step, state)
    other, _ = alone.before_step(step, other)
    state, other = taken(cycles, state), taken(alone, other)
    shown, other_shown = cycles.eval_params(state), alone.eval_params(other)
    for tree in (state.params, cycles.gradient_point(state), shown):
      assert_same(tree['hidden'], body)
    assert_same(shown['output'], other_shown['output'])
    assert_same(state.params['output'], other.params['output'])
    if step == 3:
      state, _ = cycles.after_evaluation(4, 1.0, 0.4, state)
      other, _ = alone.after_evaluation(4, 1.0, 0.4, other)
  leaves = jax.tree_util.tree_leaves
  assert_same(leaves(state.opt_state), leaves(other.opt_state))


def test_an_integer_that_is_frozen_stays():
  """Its gradient is of a type without numbers; the rest trains as without."""
  chain = dataclasses.replace(loops.SWITCHING, optimizer=OWN['muon'])
  init = lambda key: {**loops.init(key), 'n': jnp.int32(7)}
  is_kept = lambda path: path == "['n']"
  cycles = loops.make(chain, make_params=init, frozen=is_kept)
  alone = loops.make(chain)
  state, other = loops.start(cycles, init), loops.start(alone)
  state, _ = cycles.before_step(0, state)
  other, _ = alone.before_step(0, other)
  norm = lambda params: jnp.sum(params['hidden']['kernel'] ** 2)
  grads = jax.grad(norm, allow_int=True)(state.params)
  assert grads['n'].dtype == jax.dtypes.float0
  updates, _ = cycles.optimizer.update(grads, state.opt_state, state.params)
  rest, _ = alone.optimizer.update(
    jax.grad(norm)(other.params), other.opt_state, other.params
  )
  assert (updates.pop('n'), state.params['n']) == (0, 7)
  assert_same(updates, rest)
  state, events = cycles.after_evaluation(0, math.nan, math.nan, state)
  assert events[-2].numbers['tau'] == 1
  assert (state.params['n'], cycles.eval_params(state)['n']) == (7, 7)


def test_the_peak_is_that_of_what_is_trained():
  """A body a hundred times as large changes nothing while it is frozen."""

  def large(key):
    params = loops.init(key)
    hidden = {name: 100 * leaf for name, leaf in params['hidden'].items()}
    return {**params, 'hidden': hidden}

  is_body = lambda path: path.startswith("['hidden']")
  told = {'num_steps': 40, 'matrices': lambda path: None}
  cycles = Cycles(make_params=large, frozen=is_body, **told)
  key = jax.random.fold_in(jax.random.PRNGKey(0), 1)
  kernel = np.asarray(loops.init(key)['output']['kernel'], float)
  peak = 0.16 * math.sqrt(len(kernel) * np.mean(kernel**2))
  rates = np.asarray(cycles.schedule(np.arange(40)))
  assert rates.max() == pytest.approx(peak, rel=1e-6)


def test_an_average_of_ones_own_follows_the_page():
  """Its line blends the average towards the parameters, by the same tau."""
  page = documents.blocks(documents.ROOT / 'docs' / 'loop_reference.md')
  [line] = [block.text for block in page if 'average =' in block.text]
  cycles = loops.make()
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  average = old = jax.tree_util.tree_map(np.ones_like, host(state.params))
  state, events = cycles.after_evaluation(4, 1.0, 0.6, state)
  names = {'events': events, 'state': state, 'average': average}
  exec(line, {'optax': optax}, names)
  blend = lambda old, new: 0.75 * old + 0.25 * new
  right = jax.tree_util.tree_map(blend, old, host(state.params))
  assert_close(names['average'], right)

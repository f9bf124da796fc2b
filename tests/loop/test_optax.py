"""Every optimizer of optax with a learning rate, through all kinds of resets.

A few of them stand for their kinds; with CHAOS in the environment it is all of
them. tests/data/optax_states.json has what a reset does to their states.
"""

import dataclasses
import functools
import inspect
import json
import math
import os
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reset_cycles
from helpers import loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles.core.model_reset import COUNT, ITERATE, KEPT, MOMENT, Model
from reset_cycles.loop import State
from reset_cycles.parts import resets

contrib = pytest.importorskip('optax.contrib', reason='optax is too old')
PAGE = pathlib.Path(reset_cycles.__file__).parent / 'docs' / 'own_loop.md'
STATES = pathlib.Path(__file__).parents[1] / 'data' / 'optax_states.json'
pytestmark = pytest.mark.filterwarnings(
  'ignore:.*is deprecated:DeprecationWarning', 'ignore:Specifying a key'
)
KEY = jax.random.PRNGKey(0)
# What it says on the page of an optimizer that cannot be used as it is.
REFUSED = {
  'dpsgd': 'bind its other arguments with functools.partial',
  'galore': 'with FullReset() or Cyclic() only: it projects on earlier gradients',
  'lbfgs': 'with FullReset() or Cyclic() only: it remembers earlier steps',
  'rprop': 'refused: its learning rate is only that of its first step',
  'scale_by_rprop': 'refused: its learning rate is only that of its first step',
  'schedule_free': 'lambda rate: schedule_free(optax.sgd(rate), rate)',
}
# Wrappers, written as on the page.
WRAPPED = {
  'chain, masked, ema': lambda rate: optax.chain(
    optax.masked(optax.ema(0.9), {'hidden': True, 'output': False}),
    optax.sgd(rate),
  ),
  'MultiSteps': lambda rate: optax.MultiSteps(optax.adam(rate), 2),
  'apply_if_finite': lambda rate: optax.apply_if_finite(optax.adam(rate), 3),
  'inject_hyperparams': optax.inject_hyperparams(optax.adamw)(
    learning_rate=1.0
  ),
  'lookahead': lambda rate: optax.lookahead(optax.adam(rate), 3, 0.5),
  'multi_transform': lambda rate: optax.multi_transform(
    {'a': optax.adam(rate), 'b': contrib.schedule_free(optax.sgd(rate), rate)},
    {'hidden': 'a', 'output': 'b'},
  ),
  'schedule_free(sgd)': lambda rate: contrib.schedule_free(
    optax.sgd(rate), rate
  ),
}
# Besides the wrappers: moments, factored ones, iterates, a distance, integers.
TYPICAL = {'adafactor', 'adamw', 'ademamix', 'muon', 'nadamw', 'prodigy'}
TYPICAL |= {'schedule_free_adamw', 'momo', 'sm3'}


def functions():
  """By name, the functions of optax that take a learning rate."""
  return {
    name: fn
    for module in (optax, contrib)
    for name, fn in vars(module).items()
    if (inspect.isfunction(fn) or isinstance(fn, functools.partial))
    and not name.startswith('_')
    and 'learning_rate' in inspect.signature(fn).parameters
  }


if not hasattr(contrib, 'schedule_free'):
  del WRAPPED['multi_transform'], WRAPPED['schedule_free(sgd)']
OPTIMIZERS = {**functions(), **WRAPPED}
USABLE = sorted(set(OPTIMIZERS) - set(REFUSED))
if not os.environ.get('CHAOS'):
  USABLE = sorted((set(USABLE) & TYPICAL) | set(WRAPPED))


def init_of(name):
  if name != 'lookahead':
    return loops.init
  return lambda key: optax.LookaheadParams.init_synced(loops.init(key))


def loss_of(params):
  params = getattr(params, 'fast', params)
  return loops.loss_of(params, loops.inputs_of(0))


def run(cycles, state, steps, step):
  """Trains up to a step, without a reset."""
  first = int(state.opt_state.clock[0])
  state, tape = loops.train(cycles, state, {}, first, steps, step)
  assert all(event.kind == 'cycle_start' for event in tape)
  return state


def fields_of(cycles, params):
  """Names of what shrinks, is blended, begins again and stays."""
  state = jax.eval_shape(cycles.optimizer.init, params)
  model = Model(params, None, state.inner)
  fields = {}
  for path, _ in jax.tree_util.tree_flatten_with_path(model)[0]:
    name_of = [key.name for key in path[1:] if hasattr(key, 'name')] or ['']
    if path[0].name == 'opt_state':
      fields.setdefault(cycles._role(path), {})[name_of[-1]] = None
  return [list(fields.get(role, ())) for role in (MOMENT, ITERATE, COUNT, KEPT)]


def test_the_page_lists_them_all():
  page = PAGE.read_text()
  if f'with optax {optax.__version__}:' not in page:
    pytest.skip('the page is about another version of optax')
  named = re.search(r'with optax .*?(?=\n## )', page, re.DOTALL)[0]
  assert sorted(re.findall('`(.*?)`', named)) == sorted(OPTIMIZERS)
  assert sorted(states()) == sorted(set(OPTIMIZERS) - set(REFUSED))


def states():
  return json.loads(STATES.read_text())


@pytest.mark.parametrize('name', USABLE)
def test_it_trains_through_a_full_a_soft_and_a_cyclic_reset(name):
  """Cycles of 4 steps: a loss that is not finite, .4 and .8 of .8 reached."""
  make_params = init_of(name)
  cycles = loops.make(optimizer=OPTIMIZERS[name], make_params=make_params)
  params = make_params(jax.random.PRNGKey(7))
  step = loops.make_step(cycles, obj_fn=loss_of)  # for Sophia
  assert fields_of(cycles, params) == states()[name]
  state = State(params, cycles.optimizer.init(params))

  state = run(cycles, state, 4, step)
  before = host(state)
  state, events = cycles.after_evaluation(4, math.nan, math.nan, state)
  assert events[1].numbers['tau'] == 1
  fresh = make_params(jax.random.fold_in(KEY, 2))
  new = host(cycles.optimizer.init(fresh).inner)
  assert_same(state.params, fresh)
  for old, now, first, role in leaves(cycles, before, state, new):
    np.testing.assert_array_equal(now, old if role == KEPT else first)

  state = run(cycles, state, 8, step)
  before = host(state)
  assert np.isfinite(loss_of(state.params))
  state, events = cycles.after_evaluation(8, 1.0, 0.4, state)
  assert events[1].numbers['tau'] == 0.5
  fresh = host(make_params(jax.random.fold_in(KEY, 3)))
  blends = jax.tree_util.tree_map(
    lambda a, b: 0.5 * a + 0.5 * b, before.params, fresh
  )
  assert_close(state.params, blends)
  new = host(cycles.optimizer.init(fresh).inner)
  for old, now, first, role in leaves(cycles, before, state, new):
    if role == MOMENT and np.issubdtype(old.dtype, np.inexact):
      assert_close(now, 0.75 * old + 0.25 * first)
    elif role == ITERATE:
      assert_close(now, 0.5 * old + 0.5 * first)
    else:
      np.testing.assert_array_equal(now, old)

  state = run(cycles, state, 12, step)
  assert np.isfinite(loss_of(state.params))
  before = host(state)
  state, events = cycles.after_evaluation(12, 1.0, 0.8, state)
  state, events = cycles.before_step(12, state)
  assert events[0].numbers['tau'] == 0
  assert_same(state.params, before.params)
  assert_same(state.opt_state.inner, before.opt_state.inner)
  assert step._cache_size() == 1


def leaves(cycles, before, state, new):
  """(before, now, as it begins, role) of the leaves of the inner state."""
  model = lambda inner: Model(None, None, inner)
  states = before.opt_state.inner, host(state.opt_state.inner), new
  flat = [
    jax.tree_util.tree_flatten_with_path(model(inner))[0] for inner in states
  ]
  return [
    (*(leaf for _, leaf in row), cycles._role(row[0][0])) for row in zip(*flat)
  ]


@pytest.mark.parametrize('name', sorted(set(REFUSED) & set(OPTIMIZERS)))
def test_it_is_refused_with_a_way_out(name):
  line = rf'^- .*`{re.escape(name)}`.*: {re.escape(REFUSED[name])}$'
  assert re.search(line, PAGE.read_text(), re.MULTILINE)
  with pytest.raises(ValueError, match='optimizer'):
    loops.make(optimizer=OPTIMIZERS[name])


@pytest.mark.parametrize('name', sorted({'galore', 'lbfgs'} & set(OPTIMIZERS)))
@pytest.mark.parametrize('reset', [resets.FullReset(), resets.Cyclic()])
def test_what_a_blend_has_no_meaning_for_is_reset_fully_or_not_at_all(
  name, reset
):
  chain = dataclasses.replace(loops.CHAIN, reset=reset)
  cycles = loops.make(chain, optimizer=OPTIMIZERS[name])
  state, step = loops.start(cycles), loops.make_step(cycles)
  state = run(cycles, state, 4, step)
  before, fresh = host(state), loops.init(jax.random.fold_in(KEY, 2))
  new, is_full = (
    cycles.optimizer.init(fresh),
    isinstance(reset, resets.FullReset),
  )
  state, _ = cycles.after_evaluation(4, 1.0, 0.4, state)
  assert_same(state.params, fresh if is_full else before.params)
  states = leaves(cycles, before, state, host(new.inner))
  for old, now, first, role in states:
    is_new = is_full and role != KEPT
    np.testing.assert_array_equal(now, first if is_new else old)
  state = run(cycles, state, 8, step)
  assert np.isfinite(loss_of(state.params))


@pytest.mark.parametrize(
  ('optimizer', 'said'),
  [
    (optax.adamw(1e-3), 'whatever the learning rate'),
    (lambda rate: optax.adamw(1e-3), 'whatever the learning rate'),
    (
      optax.inject_hyperparams(optax.adamw)(learning_rate=lambda count: 0.1),
      'whatever the learning rate',
    ),
    (lambda a, b, c: optax.sgd(a), r"missing .* 'c'\): must be a call"),
    # No weight decay is taken for a momentum.
    (
      lambda rate, momentum: optax.sgd(rate, momentum),
      r"missing .* 'momentum'\): must be a call",
    ),
    ('adamw', r"optimizer='adamw' \(.*\): must be a callable"),
    ({'learning_rate': 0.1}, r'^optimizer=.*0.1} \(.*\): must be a'),
    (dict, r"^optimizer=<class 'dict'> \(.*\): must be a callable"),
    (lambda rate: rate, 'optimizer=.*: must be a callable'),
  ],
  ids='made deaf schedule arguments momentum word dict class number'.split(),
)
def test_a_rate_of_its_own_is_refused(optimizer, said):
  with pytest.raises(ValueError, match=said):
    loops.make(optimizer=optimizer)


@pytest.mark.parametrize(
  ('optimizer', 'decay'),
  [
    (optax.adamw, 0.001),
    (
      lambda rate, weight_decay: optax.adamw(rate, weight_decay=weight_decay),
      0.001,
    ),
    (functools.partial(optax.adamw, weight_decay=0.5), 0.5),
    (
      lambda learning_rate, /: optax.adamw(learning_rate, weight_decay=0.5),
      0.5,
    ),
    (
      lambda weight_decay, learning_rate=1: optax.adamw(
        learning_rate, weight_decay=weight_decay
      ),
      0.001,
    ),
  ],
  ids=('adamw', 'by_name', 'bound', 'by_place', 'second'),
)
def test_the_numbers_of_a_step_reach_the_optimizer(optimizer, decay):
  """One step with a gradient of zero leaves 1 - rate * decay."""
  cycles = loops.make(optimizer=optimizer)
  state = loops.start(cycles)
  own = state.opt_state
  own = own._replace(clock=own.clock.at[0].set(2))
  rate = cycles.learning_rate(state._replace(opt_state=own))
  assert rate == pytest.approx(0.005)  # half way down the cosine
  zeros = jax.tree_util.tree_map(jnp.zeros_like, state.params)
  updates, _ = cycles.optimizer.update(zeros, own, state.params)
  kernel = state.params['hidden']['kernel']
  assert_close(updates['hidden']['kernel'], -rate * decay * kernel)

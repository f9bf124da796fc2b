"""Every optimizer of optax with a learning rate, through all kinds of resets.

A few of them stand for their kinds; with CHAOS in the environment it is all of
them. What a reset is to do to their states is seen from outside, by a twin.
"""

import dataclasses
import functools
import inspect
import math
import os
import pathlib
import re

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import strategies as st

import reset_cycles
from helpers import loops, made_up
from helpers.numeric_roles import Twin
from helpers.trees import assert_close, assert_same, host
from reset_cycles import soft_reset as resets
from reset_cycles.any_optax.behaviour import behaviour_of
from reset_cycles.any_optax.optax_optimizers import build_of
from reset_cycles.any_optax.roles import roles_of
from reset_cycles.engine.model_reset import Model
from reset_cycles.loop import State
from reset_cycles.optimizers.roles import ITERATE, KEPT, MOMENT

contrib = pytest.importorskip('optax.contrib', reason='optax is too old')
PAGE = pathlib.Path(reset_cycles.__file__).parent / 'docs' / 'loop_reference.md'
pytestmark = pytest.mark.filterwarnings(
  'ignore:.*is deprecated:DeprecationWarning', 'ignore:Specifying a key'
)
KEY = jax.random.PRNGKey(0)
TIMES = int(os.environ.get('CHAOS', '1'))
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
HALF = {'hidden': True, 'output': False}
DECAY = optax.linear_schedule(0.5, 0.9, 20)
# Wrappers of wrappers.
NESTED = {
  'flatten of a chain': lambda rate: optax.flatten(
    optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))
  ),
  'MultiSteps in masks': lambda rate: optax.chain(
    optax.masked(optax.ema(0.9), HALF),
    optax.MultiSteps(optax.adamw(rate, mask=HALF), 2).gradient_transformation(),
  ),
  'apply_if_finite of injected': optax.apply_if_finite(
    optax.inject_hyperparams(optax.adam)(learning_rate=0.0, b1=DECAY), 3
  ),
  'a schedule in a partition': lambda rate: optax.multi_transform(
    {
      'a': optax.chain(optax.adam(rate), optax.scale_by_schedule(DECAY)),
      'b': optax.MultiSteps(
        optax.flatten(optax.sgd(rate, momentum=0.9)), 2
      ).gradient_transformation(),
    },
    {'hidden': 'a', 'output': 'b'},
  ),
  'lookahead of a mask': lambda rate: optax.lookahead(
    optax.chain(optax.masked(optax.ema(0.9), HALF), optax.adam(rate)), 3, 0.5
  ),
  'MultiSteps of injected': optax.MultiSteps(
    optax.inject_hyperparams(optax.lion)(learning_rate=0.0), 2
  ),
}
# What goes on through a full reset changes their steps: random keys, a schedule
# of their own, the steps to the next look ahead.
GOES_ON = {'noisy_sgd', 'sophia', 'apply_if_finite of injected'}
GOES_ON |= {'a schedule in a partition', 'lookahead', 'lookahead of a mask'}
# What no behaviour can be seen of before it is bound.
NOT_BUILT = {'dpsgd', 'schedule_free'}
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
ALL = {n: o for n, o in OPTIMIZERS.items() if n not in NOT_BUILT} | NESTED
USABLE = SEEN = sorted(set(ALL) - set(REFUSED))
if os.environ.get('CHAOS'):
  SEEN = sorted(ALL)
else:
  USABLE = SEEN = sorted((set(USABLE) & TYPICAL) | set(WRAPPED) | set(NESTED))


def init_of(name):
  if not name.startswith('lookahead'):
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


def test_the_page_lists_them_all():
  page = PAGE.read_text()
  if f'optax {optax.__version__}:' not in page:
    pytest.skip('the page is about another version of optax')
  named = re.search(r'\noptax [\d.]+:.*\Z', page, re.DOTALL)[0]
  assert sorted(re.findall('`(.*?)`', named)) == sorted(OPTIMIZERS)


def roles_by(name, optimizer):
  """The roles in the order of the leaves, and the numeric twin's look at them."""
  params = init_of(name)(jax.random.PRNGKey(7))
  shapes = jax.eval_shape(lambda: params)
  build = build_of(optimizer, shapes, 0.001)
  behaviour = behaviour_of(build, shapes)
  roles = roles_of(behaviour, [False] * len(behaviour.targets)).of
  return roles, Twin(build, params).allowed()


@pytest.mark.parametrize('name', SEEN)
def test_its_roles_are_what_it_does(name):
  """As seen from outside, by a twin that changes what goes in."""
  roles, allowed = roles_by(name, ALL[name])
  assert len(roles) == len(allowed)
  for (path, role), right in zip(roles.items(), allowed):
    assert role in right, path


def through_resets(cycles, params, goes_on=False):
  """Trains through a full, a soft and a cyclic reset, and checks each leaf.

  Cycles of 4 steps; the gradients of step 3 are NaN, .4 and .8 of .8 reached.

  Args:
    cycles: of the loop.
    params: to begin with.
    goes_on: whether what stays in its state changes its steps.
  """
  make_params = cycles._fresh.make_params
  step = loops.make_step(cycles, obj_fn=loss_of)  # for Sophia
  state = State(params, cycles.optimizer.init(params))

  state = run(cycles, state, 3, step)
  state, _ = cycles.before_step(3, state)
  state = step(state, loops.inputs_of(3) * math.nan)
  before = host(state)
  state, events = cycles.after_evaluation(4, math.nan, math.nan, state)
  assert events[1].numbers['tau'] == 1
  fresh = make_params(jax.random.fold_in(KEY, 2))
  new = cycles.optimizer.init(fresh).inner
  assert_same(state.params, fresh)
  for old, now, first, role in leaves(cycles, before, state, host(new)):
    np.testing.assert_array_equal(now, old if role == KEPT else first)
    is_sound = not np.any(np.isnan(now)) or np.any(np.isnan(first))
    assert is_sound or not np.issubdtype(now.dtype, np.inexact)
  # It goes on as from the beginning.
  own = jax.tree_util.tree_map(jnp.copy, state)
  other = own._replace(opt_state=own.opt_state._replace(inner=new))
  other = jax.tree_util.tree_map(jnp.copy, other)
  for i in range(4, 6):
    own, other = (step(each, loops.inputs_of(i)) for each in (own, other))
    if not goes_on:
      assert_same(own.params, other.params)

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
    if role == MOMENT:
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


@pytest.mark.parametrize('name', USABLE)
def test_it_trains_through_a_full_a_soft_and_a_cyclic_reset(name):
  make_params = init_of(name)
  cycles = loops.make(optimizer=ALL[name], make_params=make_params)
  params = make_params(jax.random.PRNGKey(7))
  through_resets(cycles, params, goes_on=name in GOES_ON)


@pytest.mark.parametrize('seed', range(TIMES))
def test_made_up_ones_train_through_them_as_well(seed):
  """Ten transformations of any parts, in any containers and wrappers."""

  @hypothesis.seed(seed)
  @hypothesis.settings(
    max_examples=10,
    deadline=None,
    database=None,
    phases=[hypothesis.Phase.generate],  # to make one smaller takes minutes
  )
  @hypothesis.given(st.data())
  def tried(data):
    made = made_up.draw(data)
    roles, allowed = roles_by('', made.build)
    for (path, role), right in zip(roles.items(), allowed):
      assert role in right, path
    cycles = loops.make(optimizer=made.build)
    params = loops.init(jax.random.PRNGKey(7))
    through_resets(cycles, params, goes_on=made.has_schedule)

  tried()


def leaves(cycles, before, state, new):
  """(before, now, as it begins, role) of the leaves of the inner state."""
  model = lambda inner: Model(None, None, inner)
  states = before.opt_state.inner, host(state.opt_state.inner), new
  flat = [
    jax.tree_util.tree_flatten_with_path(model(inner))[0] for inner in states
  ]
  return [
    (*(leaf for _, leaf in row), cycles._training.role_of(row[0][0]))
    for row in zip(*flat)
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
    (
      lambda *, learning_rate: optax.adamw(learning_rate, weight_decay=0.5),
      0.5,
    ),
    (
      functools.partial(
        lambda decay, learning_rate: optax.adamw(
          learning_rate, weight_decay=decay
        ),
        decay=0.5,
      ),
      0.5,
    ),
  ],
  ids='adamw by_name bound by_place second by_name_alone partial'.split(),
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

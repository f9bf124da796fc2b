"""The state of a loop: its classes, its steps, what it may be restored from."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import documents, loops
from helpers.trees import assert_same, host
from reset_cycles.loop import State


@pytest.mark.parametrize('kind', [int, np.int64, np.uint8, jnp.int32, np.array])
def test_a_step_may_be_any_whole_number(kind):
  """A soft reset at step 4; events have Python's numbers."""
  cycles, plain = loops.make(), loops.make()
  step = loops.make_step(cycles)
  state, tape = loops.start(cycles), []
  expected, right = loops.train(
    plain, loops.start(plain), {2: (1.0, 0.4)}, 0, 6
  )
  for i in range(6):
    state, events = cycles.before_step(kind(i), state)
    tape += events
    assert cycles.steps_until_due(kind(i)) == (4 if i < 4 else 8) - i
    state = step(state, loops.inputs_of(i))
    if i == 1:
      state, events = cycles.after_evaluation(kind(2), 1.0, 0.4, state)
      tape += events
  assert tape == right
  for event in tape:
    assert type(event.step) is type(event.cycle) is int
    assert {type(v) for v in event.numbers.values()} <= {int, float, bool}
  assert_same(state, expected)


@pytest.mark.parametrize('step', ['0', 0.0, True, jnp.float32(0), [0], None])
def test_what_is_no_step_is_refused(step):
  cycles = loops.make()
  state = loops.start(cycles)
  for call in (
    lambda: cycles.before_step(step, state),
    lambda: cycles.after_evaluation(step, 1.0, 0.5, state),
    lambda: cycles.steps_until_due(step),
  ):
    with pytest.raises(ValueError, match='step=.*: must be a whole number'):
      call()


@dataclasses.dataclass(frozen=True)
class Made:
  """Its constructor takes other arguments than its fields."""

  params: Any
  opt_state: Any
  name: str

  def __init__(self, cycles, params):
    object.__setattr__(self, 'params', params)
    object.__setattr__(self, 'opt_state', cycles.optimizer.init(params))
    object.__setattr__(self, 'name', 'mine')


def module(cycles, params):
  eqx = pytest.importorskip('equinox')

  class Module(eqx.Module):
    params: Any
    opt_state: Any
    name: str = eqx.field(static=True)

    def __init__(self, params):
      self.params, self.name = params, 'mine'
      self.opt_state = cycles.optimizer.init(params)

  return Module(params)


@pytest.mark.parametrize('make', [Made, module])
def test_no_constructor_is_asked_to_make_a_state(make):
  cycles = loops.make(loops.SWITCHING)
  params = loops.init(jax.random.PRNGKey(7))
  state = make(cycles, params)
  before, events = cycles.before_step(0, state)
  assert [event.kind for event in events] == ['cycle_start']
  assert_same(before.params, loops.init(jax.random.PRNGKey(7)))
  after, _ = cycles.after_evaluation(0, math.nan, math.nan, before)
  assert type(after) is type(state) and after.name == 'mine'
  fresh = loops.init(jax.random.fold_in(jax.random.PRNGKey(0), 2))
  assert_same(after.params, fresh)


def test_parameters_may_be_one_array():
  """Two cycles of 4 steps; half of a fresh array in the second."""
  fresh = lambda key: jax.random.normal(key, (3, 2))
  cycles = loops.make(optimizer=optax.adam, make_params=fresh)
  state = loops.start(cycles, fresh)
  state, _ = cycles.before_step(0, state)
  for _ in range(4):
    updates, opt = cycles.optimizer.update(
      jnp.ones((3, 2)), state.opt_state, state.params
    )
    state = State(optax.apply_updates(state.params, updates), opt)
  old = host(state)
  state, _ = cycles.after_evaluation(4, 1.0, 0.4, state)
  new = fresh(jax.random.fold_in(jax.random.PRNGKey(0), 2))
  np.testing.assert_allclose(state.params, (old.params + new) / 2, rtol=1e-6)
  mu = state.opt_state.inner[0].mu
  np.testing.assert_allclose(mu, 0.75 * old.opt_state.inner[0].mu, rtol=1e-6)


@pytest.mark.parametrize(
  ('wrong', 'said'),
  [
    (
      lambda state: state.params,
      'state=.dict.: must be a NamedTuple or a data',
    ),
    (
      lambda state: state._replace(opt_state=state.opt_state.inner),
      'state.opt_state=.tuple.: must be of cycles.optimizer.init',
    ),
  ],
  ids=('params', 'optax'),
)
def test_what_is_no_state_is_refused(wrong, said):
  cycles = loops.make()
  state = wrong(loops.start(cycles))
  for call in (
    lambda: cycles.before_step(0, state),
    lambda: cycles.eval_params(state),
    lambda: cycles.learning_rate(state),
  ):
    with pytest.raises(ValueError, match=said):
      call()


def test_a_deleted_state_is_refused_with_a_sentence():
  cycles = loops.make(loops.SWITCHING)
  old = loops.start(cycles)
  old, _ = cycles.before_step(0, old)
  new, _ = cycles.after_evaluation(0, math.nan, math.nan, old)
  with pytest.raises(ValueError, match='has been deleted: a reset donates'):
    cycles.before_step(0, old)
  with pytest.raises(ValueError, match=r"state.params\['hidden.*deleted"):
    cycles.after_evaluation(0, 1.0, 0.5, old)
  cycles.before_step(0, new)


def test_the_reference_says_on_its_first_screen_what_is_donated():
  page = (documents.ROOT / 'docs' / 'loop_reference.md').read_text()
  first = ' '.join(page.splitlines()[:25])
  assert '`before_step` and `after_evaluation` may delete the arrays' in first
  assert 'keep copies' in first


@pytest.mark.parametrize('kind', [np.int64, np.uint32])
def test_a_clock_of_another_whole_type_is_converted(kind):
  cycles = loops.make()
  state, _ = loops.train(cycles, loops.start(cycles), {2: (1.0, 0.4)}, 0, 3)
  expected, right = loops.train(loops.make(), host(state), {}, 3, 6)
  opt = host(state.opt_state)
  other = opt._replace(
    clock=opt.clock.astype(kind), control=opt.control.astype(kind)
  )
  restored = host(state)._replace(opt_state=other)
  again = loops.make()
  assert again.learning_rate(restored) == cycles.learning_rate(state)
  found, tape = loops.train(again, restored, {}, 3, 6)
  assert tape == right
  assert_same(found, expected)


@pytest.mark.parametrize('name', ['clock', 'control'])
@pytest.mark.parametrize('kind', [np.float32, np.float64, np.int16])
def test_a_clock_that_has_lost_its_bits_is_refused(name, kind):
  cycles = loops.make()
  state = loops.start(cycles)
  lost = getattr(host(state.opt_state), name).astype(kind)
  opt = state.opt_state._replace(**{name: lost})
  said = (
    f'dtype of state.opt_state.{name}={np.dtype(kind).name!r}: must be int32'
  )
  with pytest.raises(ValueError, match=said):
    cycles.before_step(0, state._replace(opt_state=opt))


def halved(tree):
  """Each leaf of float32 in bfloat16, as a checkpoint may keep it."""
  return jax.tree_util.tree_map(
    lambda x: x.astype(jnp.bfloat16) if x.dtype == np.float32 else x, tree
  )


@pytest.mark.parametrize('own', [None, optax.adam])
@pytest.mark.parametrize('part', ['params', 'opt_state'])
def test_a_state_of_another_precision_is_refused(own, part):
  """Also one that begins so: make_params says what is trained."""
  cycles = loops.make(optimizer=own)
  state = loops.start(cycles)
  lost = state._replace(**{part: halved(getattr(state, part))})
  said = rf"state\.{part}.*\['bias'\]='bfloat16': must be float32, as .*make"
  with pytest.raises(ValueError, match=f'^dtype of {said}'):
    cycles.before_step(0, lost)
  # On a device, a host's float64 is a float32.
  wide = jax.tree_util.tree_map(
    lambda x: np.float64(x) if x.dtype == np.float32 else x, host(state)
  )
  cycles.before_step(0, wide)


@pytest.mark.parametrize('step', [0, 1])
def test_parameters_of_another_precision_are_refused_in_the_midst(step):
  """Of cycles that have begun, at the same step or at the next one."""
  cycles = loops.make(optimizer=optax.adam)
  state, _ = cycles.before_step(0, loops.start(cycles))
  lost = state._replace(params=halved(state.params))
  said = r"dtype of state\.params.*\['bias'\]='bfloat16': must be float32"
  with pytest.raises(ValueError, match=said):
    cycles.before_step(step, lost)


def test_parameters_may_be_of_half_precision_from_the_start():
  fresh = lambda key: halved(loops.init(key))
  cycles = loops.make(optimizer=optax.adam, make_params=fresh)
  state, tape = loops.train(
    cycles, loops.start(cycles, fresh), {2: (1.0, 0.4)}, 0, 5
  )
  assert [event.kind for event in tape].count('reset') == 1
  leaves = jax.tree_util.tree_leaves(state.params)
  assert {leaf.dtype for leaf in leaves} == {jnp.dtype(jnp.bfloat16)}

"""Where the arrays of a loop lie: sharded, restored, on fewer devices, apart."""

import contextlib
import dataclasses
import functools
import io
import math
import pickle

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers import loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles.loop import State
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon
from reset_cycles.soft_reset import SoftReset

SWITCHING, EVALUATIONS = loops.SWITCHING, loops.EVALUATIONS


ON_FOUR = {'make_params': loops.sharded(4), 'optimizer': optax.adamw}


@pytest.fixture(scope='module')
def run_on_four():
  """The step of a run of 14 steps, its end, and before each step: state, tape."""
  cycles = loops.make(SWITCHING, **ON_FOUR)
  step = loops.make_step(cycles)
  state, tape, before = loops.start(cycles, ON_FOUR['make_params']), [], []
  for i in range(14):
    # The step donates the state.
    before.append((jax.tree_util.tree_map(jnp.copy, state), len(tape)))
    state, events = loops.train(cycles, state, EVALUATIONS, i, i + 1, step)
    tape += events
  return step, state, tape, before


@pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='jax 0.4 lays out what a sharded step returns as it likes, and then '
  'fails where the step donates it',
)
@pytest.mark.parametrize(
  'way', ['pickle', 'flax', 'equinox', 'orbax Standard', 'orbax PyTree']
)
def test_a_sharded_run_goes_on_from_every_step(way, run_on_four, tmp_path):
  """On 4 devices, killed before each step: the same to the last bit.

  In one of the ways there is a new `Cycles` each time, as in a new process. In
  the others one serves all restored runs: it compiles its resets once.
  """
  step, end, tape, before = run_on_four
  again = loops.make(SWITCHING, **ON_FOUR)
  for i, (state, said) in enumerate(before):
    saved = save(way, state, tmp_path / str(i))
    if way == 'pickle':
      again = loops.make(SWITCHING, **ON_FOUR)
    restored = restore(way, saved, loops.start(again, ON_FOUR['make_params']))
    resumed, rest = loops.train(again, restored, EVALUATIONS, i, 14, step)
    assert str(rest) == str(tape[said:])
    assert_same(resumed, end)


def checkpointer(way):
  kind = way.removeprefix('orbax ')
  return getattr(loops.orbax_checkpoint(), f'{kind}Checkpointer')()


def save(way, state, path):
  if way == 'pickle':
    return pickle.dumps(host(state))
  if way == 'flax':
    return flax.serialization.to_bytes(state)
  if way == 'equinox':
    file = io.BytesIO()
    pytest.importorskip('equinox').tree_serialise_leaves(file, state)
    return file.getvalue()
  with checkpointer(way) as orbax:
    orbax.save(path, state)
  return path


def restore(way, saved, like):
  """The state that was saved; `like` is laid out as it is to be."""
  if way.startswith('orbax'):
    with checkpointer(way) as orbax:
      if way == 'orbax Standard':
        return orbax.restore(saved, like)
      utils = loops.orbax_checkpoint().checkpoint_utils
      args = utils.construct_restore_args(like)
      return orbax.restore(saved, item=like, restore_args=args)
  if way == 'pickle':
    restored = pickle.loads(saved)
  elif way == 'equinox':
    file = io.BytesIO(saved)
    restored = pytest.importorskip('equinox').tree_deserialise_leaves(
      file, like
    )
  else:
    restored = flax.serialization.from_bytes(like, saved)
  # Arrays without a place; all but the parameters follow these.
  place = lambda x, like: jax.device_put(x, like.sharding)
  params = jax.tree_util.tree_map(place, restored.params, like.params)
  return restored._replace(params=params)


@pytest.mark.filterwarnings('ignore:Some donated buffers')  # jax 0.4
@pytest.mark.parametrize(
  ('is_jitted', 'way'),
  [(False, 'orbax Standard'), (False, 'orbax PyTree'), (True, 'pickle')],
)
def test_a_sharded_run_keeps_its_layout_and_moves_to_fewer_devices(
  is_jitted, way, compilations, tmp_path
):
  fresh = loops.sharded(8)
  cycles = loops.make(make_params=fresh, optimizer=optax.adamw)
  params = fresh(jax.random.PRNGKey(7))
  init = cycles.optimizer.init
  state = State(params, (jax.jit(init) if is_jitted else init)(params))
  step = loops.make_step(cycles)
  state, _ = loops.train(cycles, state, {}, 0, 2, step)
  mu = state.opt_state.inner[0].mu['hidden']['kernel']
  assert mu.sharding.is_equivalent_to(params['hidden']['kernel'].sharding, 2)
  assert len(state.opt_state.control.sharding.device_set) == 8
  saved = save(way, state, tmp_path / 'saved')
  with compilations() as compiled:
    state, tape = loops.train(cycles, state, EVALUATIONS, 2, 14, step)
  assert [e.kind for e in tape].count('reset') == 3
  assert not compiled

  fresh = loops.sharded(2)
  fewer = loops.make(make_params=fresh, optimizer=optax.adamw)
  moved = restore(way, saved, loops.start(fewer, fresh))
  resumed, again = loops.train(fewer, moved, EVALUATIONS, 2, 14)
  assert [str(e) for e in again] == [str(e) for e in tape]
  nu = resumed.opt_state.inner[0].nu['hidden']['kernel']
  right = moved.params['hidden']['kernel'].sharding
  assert len(right.device_set) == 2
  assert nu.sharding.is_equivalent_to(right, 2)
  assert_close(resumed, state, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_may_have_lists_for_tuples():
  """optax has tuples where some formats know lists only."""
  cycles, other = (
    loops.make(optimizer=optax.adamw),
    loops.make(optimizer=optax.adamw),
  )
  evaluations = {2: (1.0, 0.4)}
  state, _ = loops.train(cycles, loops.start(cycles), evaluations, 0, 3)
  saved = host(state)
  inner = list(saved.opt_state.inner)
  listed = saved._replace(opt_state=saved.opt_state._replace(inner=inner))
  resumed, events = other.before_step(3, listed)
  assert isinstance(resumed.opt_state.inner, tuple)
  resumed, tape = loops.train(other, resumed, {}, 3, 6)
  expected, right = loops.train(cycles, state, {}, 3, 6)
  assert tape == right
  assert_same(resumed, expected)


def test_the_state_is_mapped_as_any_of_optax():
  if tuple(map(int, optax.__version__.split('.')[:3])) < (0, 2, 3):
    pytest.skip('the tree_map_params of this optax is missing or broken')
  cycles = loops.make(optimizer=optax.adam)
  params = loops.init(jax.random.PRNGKey(7))
  state = cycles.optimizer.init(params)
  mark = lambda leaf: 'like a parameter'
  found = optax.tree_map_params(cycles.optimizer, mark, state)
  plain = optax.adam(0.1)
  right = optax.tree_map_params(plain, mark, plain.init(params))
  assert found.inner[0].mu == right[0].mu
  assert found.inner[0].count == right[0].count
  assert found.clock is state.clock and found.control is state.control


def test_a_state_is_known_by_its_shapes_alone():
  """Inside `eval_shape` and around it, `jit` and none: one structure."""
  cycles = loops.make(optimizer=optax.adam)
  init = cycles.optimizer.init
  params = loops.init(jax.random.PRNGKey(7))
  shapes = jax.eval_shape(loops.init, jax.random.PRNGKey(7))
  kinds = lambda tree: jax.tree_util.tree_map(
    lambda leaf: (leaf.shape, leaf.dtype), tree
  )
  right = kinds(init(params))
  assert kinds(jax.eval_shape(init, shapes)) == right
  make = lambda key: init(loops.init(key))
  assert kinds(jax.eval_shape(make, jax.random.PRNGKey(7))) == right
  assert kinds(jax.jit(make)(jax.random.PRNGKey(7))) == right


def test_without_jit_it_is_the_same_run():
  evaluations = {2: (1.0, 0.4)}
  compiled = loops.make(optimizer=optax.adam)
  right, said = loops.train(compiled, loops.start(compiled), evaluations, 0, 5)
  with jax.disable_jit():
    cycles = loops.make(optimizer=optax.adam)
    found, tape = loops.train(cycles, loops.start(cycles), evaluations, 0, 5)
  assert list(map(str, tape)) == list(map(str, said))
  for a, b in zip(
    *map(jax.tree_util.tree_leaves, (right.params, found.params))
  ):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_stages_stay_on_their_devices():
  """Two layers on two devices, which no mesh spans, through all resets."""
  one, two = jax.devices()[:2]
  fresh = lambda key: {
    'first': jax.random.normal(key, (4, 4)),
    'second': jnp.ones((4, 2)),
  }
  places = {'first': {one}, 'second': {two}}
  # Adam corrects the bias of all leaves in one compiled call.
  momentum = functools.partial(optax.sgd, momentum=0.9)
  chain = dataclasses.replace(loops.SWITCHING, reset=SoftReset())
  cycles = loops.make(chain, optimizer=momentum, make_params=fresh)
  params = fresh(jax.random.PRNGKey(1))
  params = {
    name: jax.device_put(leaf, device)
    for (name, leaf), device in zip(params.items(), (one, two))
  }
  state = State(params, cycles.optimizer.init(params))
  for step, metric in enumerate((0.4, 0.5, 0.6, 0.7, math.nan)):
    state, _ = cycles.before_step(step, state)
    updates, opt = cycles.optimizer.update(
      state.params, state.opt_state, state.params
    )
    state = State(optax.apply_updates(state.params, updates), opt)
    state, events = cycles.after_evaluation(step + 1, metric, metric, state)
    own = opt.inner[0]
    for tree in (state.params, state.opt_state.inner[0].trace, own.trace):
      assert {name: leaf.devices() for name, leaf in tree.items()} == places
  assert [e.numbers['tau'] for e in events if e.kind == 'reset'] == [1.0]
  right = fresh(jax.random.fold_in(jax.random.PRNGKey(0), events[-1].cycle))
  assert_same(state.params, right)


@pytest.mark.skipif(
  not hasattr(jax, 'set_mesh'), reason='by default, no mesh has explicit axes'
)
@pytest.mark.parametrize('is_set', [False, True], ids=('apart', 'set'))
def test_the_axes_of_a_mesh_may_be_explicit(is_set):
  """As one device: Muon, which stacks what lies in different ways, and resets."""
  kinds = (jax.sharding.AxisType.Explicit,) * 2
  mesh = jax.make_mesh((2, 2), ('x', 'y'), axis_types=kinds)
  layout = {
    'hidden': {'bias': ('x',), 'kernel': ('x', 'y')},
    'output': {'kernel': (None, 'y')},
    'square': {'kernel': ('y',)},
  }

  def fresh(key):
    square = jax.random.normal(jax.random.fold_in(key, 1), (8, 8))
    return {**loops.init(key), 'square': {'kernel': square}}

  def run(params):
    settings = dataclasses.replace(SWITCHING, optimizer=ScheduleFreeMuon())
    cycles = loops.make(settings, make_params=fresh)
    state = State(params, cycles.optimizer.init(params))

    @jax.jit
    def step(state):
      grads = jax.tree.map(lambda p: p - 0.5, cycles.gradient_point(state))
      updates, opt = cycles.optimizer.update(
        grads, state.opt_state, state.params
      )
      return State(optax.apply_updates(state.params, updates), opt)

    evaluations = {**EVALUATIONS, 8: (math.nan, math.nan)}
    return loops.train(
      cycles, state, evaluations, 0, 10, lambda state, _: step(state)
    )

  params = fresh(jax.random.PRNGKey(7))
  right, said = run(params)
  place = lambda x, axes: jax.device_put(
    x, NamedSharding(mesh, PartitionSpec(*axes))
  )
  placed = jax.tree.map(place, params, layout)
  with jax.set_mesh(mesh) if is_set else contextlib.nullcontext():
    found, tape = run(placed)
  assert list(map(str, tape)) == list(map(str, said))
  taus = [e.numbers['tau'] for e in tape if e.kind == 'reset']
  assert taus == pytest.approx([0.25, 1.0])
  assert_close(found.params, right.params, rtol=1e-4, atol=1e-6)
  for leaf, like in zip(
    *map(
      jax.tree.leaves, ((found.params, found.opt_state.inner.z), (placed,) * 2)
    )
  ):
    assert leaf.sharding.is_equivalent_to(like.sharding, leaf.ndim)


def test_a_state_that_is_spread_further_stays_so():
  """Parameters on all of 8 devices, moments in parts (ZeRO-1), as one by one."""
  mesh = Mesh(np.array(jax.devices()), ('data',))
  place = lambda *axes: NamedSharding(mesh, PartitionSpec(*axes))
  cycles, plain = (
    loops.make(loops.SWITCHING, optimizer=optax.adamw) for _ in range(2)
  )
  state = loops.start(cycles)
  params = jax.device_put(state.params, place())
  opt = cycles.optimizer.init(params)
  spread = lambda x: jax.device_put(x, place('data') if x.ndim else place())
  inner = jax.tree_util.tree_map(spread, opt.inner)
  state = State(params, opt._replace(inner=inner))
  step = jax.jit(
    loops.make_step(cycles),
    out_shardings=jax.tree_util.tree_map(lambda x: x.sharding, state),
  )
  evaluations = {**loops.EVALUATIONS, 8: (math.nan, math.nan)}
  for i in range(10):
    state, _ = loops.train(cycles, state, evaluations, i, i + 1, step)
    for tree, where in (
      (state.params, place()),
      (state.opt_state.inner[0].mu, place('data')),
      (state.opt_state.inner[0].nu, place('data')),
    ):
      for leaf in jax.tree_util.tree_leaves(tree):
        assert leaf.sharding.is_equivalent_to(where, leaf.ndim)
  other = loops.start(plain)
  expected, tape = loops.train(plain, other, evaluations, 0, 10)
  assert [e.numbers['tau'] for e in tape if e.kind == 'reset'][-1] == 1
  assert_close(state.params, expected.params, rtol=1e-4, atol=1e-6)

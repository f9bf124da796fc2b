"""`schedule_free_muon` beside the submission's optimizer, and inside optax."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers import loops
from helpers.trees import assert_close, assert_same, host
from reset_cycles import (
  ScheduleFreeMuon,
  schedule_free_eval_params,
  schedule_free_muon,
)
from reset_cycles.core.forms import TABLE, VECTOR, matrix
from reset_cycles.loop import ScheduleFreeState
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.peaks import SpectralPeak
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.optimizers.step import Step
from reset_cycles.schedule_params import MUON

map_ = jax.tree_util.tree_map
FORM = matrix(inputs=(0,), outputs=(1,))
FORMS = {"['w']": FORM}.get
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(16, 8)).astype(np.float32)
GOAL = RNG.normal(size=(16, 4)).astype(np.float32)
# rms .5 with 8 inputs: a spectral size of .5 sqrt(8).
START = {
  'b': np.float32([0.5, -1.0, 0.0, 2.0]),
  'w': 0.5 * RNG.choice(np.float32([-1.0, 1.0]), (8, 4)),
}
SIZE = 0.5 * math.sqrt(8.0)
STEPS = 6


def loss_of(params):
  return jnp.mean((INPUTS @ params['w'] + params['b'][None] - GOAL) ** 2)


grad_of = jax.grad(loss_of)
arrays = functools.partial(map_, jnp.asarray)
muon = functools.partial(schedule_free_muon, matrices=FORMS)


def make_step(tx):
  @functools.partial(jax.jit, donate_argnums=(0, 1))
  def step(params, state):
    updates, state = tx.update(grad_of(params), state, params)
    return optax.apply_updates(params, updates), state

  return step


def trained(tx, steps=STEPS, start=START):
  """Parameters and state of a loop whose step donates both."""
  params, step = arrays(start), make_step(tx)
  state = tx.init(params)
  for _ in range(steps):
    params, state = step(params, state)
  return params, state


@functools.cache
def bare():
  """y and x of the transformation without a wrapper, at a rate of .05."""
  params, state = trained(muon(0.05))
  return host((params, schedule_free_eval_params(state, params)))


def test_the_submission_and_the_transformation_give_the_same_x():
  """Over 60 steps, the parameters x in one and y in the other."""
  rates = 0.02 + 0.03 * np.cos(np.arange(60)) ** 2
  rates[[0, 1, 7, 30, 31, 59]] = 0.0
  rates = jnp.float32(rates)
  inside = ScheduleFreeMuon(weight_decay=0.5)

  def submission(carry, rate):
    x, state = carry
    tx = inside.build(Step(rate, forms=(VECTOR, FORM), size=SIZE))
    updates, state = tx.update(
      grad_of(inside.gradient_point(state, x)), state, x
    )
    x = optax.apply_updates(x, updates)
    return (x, state), (x, state.z)

  tx = muon(rates.__getitem__, optimizer=inside)

  def transformation(carry, _):
    y, state = carry
    updates, state = tx.update(grad_of(y), state, y)
    y = optax.apply_updates(y, updates)
    return (y, state), (schedule_free_eval_params(state, y), state.z, y)

  start = arrays(START)
  begin = start, inside.build(Step(0.0)).init(start)
  _, expected = jax.lax.scan(submission, begin, rates)
  begin = start, tx.init(start)
  (_, last), (x, z, y) = jax.lax.scan(transformation, begin, rates)
  assert_close((x, z), expected, rtol=2e-5, atol=2e-6)
  moved = np.abs(np.asarray(x['w'][-1]) - START['w'])
  assert moved.min() > 0.01
  for stands in (0, 1, 7, 30, 31, 59):  # to the last bit
    before = START['w'] if stands < 2 else y['w'][stands - 1]
    np.testing.assert_array_equal(y['w'][stands], before)
  assert (last.step_count, last.count) == (54, 60)


def test_optax_reads_the_state():
  contrib = pytest.importorskip('optax.contrib')
  if not hasattr(contrib, 'schedule_free_eval_params'):
    pytest.skip('this optax has no Schedule-Free')
  params, state = trained(muon(0.05))
  assert_same(contrib.schedule_free_eval_params(state, params), bare()[1])
  assert np.abs(bare()[0]['w'] - bare()[1]['w']).max() > 0.01


@pytest.mark.parametrize(
  ('num_steps', 'length'), ((None, 1.0), (300, 1.0), (1200, 0.5))
)
def test_without_a_rate_it_is_the_spectral_peak(num_steps, length):
  tx, params = muon(num_steps=num_steps), arrays(START)
  state = tx.init(params)
  np.testing.assert_allclose(state.peak, 0.16 * length * SIZE, rtol=1e-6)
  np.testing.assert_allclose(state.size, SIZE, rtol=1e-6)
  shapes = jax.eval_shape(tx.init, params)
  shape_of = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
  assert map_(shape_of, state) == map_(shape_of, shapes)
  # The state keeps the rate: it is not that of the parameters at hand.
  given = muon(0.16 * length * SIZE)
  larger, grads = map_(lambda p: 4 * p, params), grad_of(params)
  update = lambda tx, state: tx.update(grads, state, larger)[0]
  assert_close(update(tx, state), update(given, given.init(params)))


@pytest.mark.parametrize(
  ('steps_per_epoch', 'factor'),
  # A share of .08 of 1,200 steps. From 1 / (5 * .3 * .08) epochs on, a matrix
  # could not grow to five times its size.
  ((2000, 1.0), (240.0, 5.0), (1, 1 / 0.12)),
)
def test_the_weight_decay_follows_the_epochs(steps_per_epoch, factor):
  params = arrays(START)
  told = muon(num_steps=1200, steps_per_epoch=steps_per_epoch)
  stronger = ScheduleFreeMuon(weight_decay=0.3 * factor)
  expected = trained(muon(num_steps=1200, optimizer=stronger))
  assert_close(trained(told), expected, rtol=1e-5, atol=1e-6)
  gap = trained(muon(num_steps=1200))[0]['w'] - expected[0]['w']
  assert (np.abs(gap).max() > 1e-3) == (factor > 1)
  assert told.init(params).peak == np.float32(0.08 * SIZE)


def test_an_embedding_takes_more_of_what_the_epochs_add():
  """By hand: a step without a gradient, five epochs; the loss has no table."""
  params = arrays({**START, 'table': np.ones((3, 2), np.float32)})
  forms = {"['w']": FORM, "['table']": TABLE}.get
  tx = muon(num_steps=1200, steps_per_epoch=240, matrices=forms)
  updates, _ = tx.update(grad_of(params), tx.init(params), params)
  rate, decay = 0.08 * SIZE, 0.3 * 0.08
  shrinks = 0.2 * rate * decay + rate * 4 * decay / 0.2
  np.testing.assert_allclose(updates['table'], -shrinks, rtol=1e-4)


def test_where_all_matrices_are_0_the_rate_is_that_of_a_size_of_1():
  zeros = map_(jnp.zeros_like, START)
  assert muon().init(zeros).peak == np.float32(0.16)
  assert muon(num_steps=1200).init(zeros).peak == np.float32(0.08)


def test_it_has_the_numbers_in_force():
  assert ScheduleFreeMuon() == MUON.optimizer
  assert SpectralPeak() == MUON.relative_peak
  assert SpectralPeak().share == MUON.cycles[0].peak


EMA = Averaged(ScheduleFreeMuon().inner, one_minus_beta1=1.0)


@pytest.mark.parametrize(
  ('arguments', 'message'),
  (
    ({'learning_rate': -1.0}, r'learning_rate=-1.0: must be a number in \[0'),
    ({'learning_rate': 'fast'}, "learning_rate='fast': must be a number"),
    ({'learning_rate': np.ones(2)}, r'shape of learning_rate=\(2,\): must be'),
    ({'learning_rate': jnp.float32(-1.0)}, 'learning_rate=-1.0: must be a num'),
    (
      {'learning_rate': np.array(np.nan)},
      'learning_rate=nan: must be a number',
    ),
    ({'num_steps': jnp.int32(-5)}, 'num_steps=-5: must be a whole number'),
    ({'num_steps': np.array(9.5)}, 'num_steps=9.5: must be a whole number'),
    ({'num_steps': 0}, 'num_steps=0: must be a whole number of at least 1'),
    (
      {'num_steps': 9, 'learning_rate': 0.1},
      'num_steps=9: must be None where a learning_rate is given',
    ),
    (
      {'steps_per_epoch': 9, 'learning_rate': 0.1},
      'steps_per_epoch=9: must be None where a learning_rate is given',
    ),
    (
      {'steps_per_epoch': 9},
      'steps_per_epoch=9: must be None where num_steps is not given',
    ),
    *(
      (
        {'num_steps': 9, 'steps_per_epoch': steps},
        r'steps_per_epoch=.*: must be a number in \[1, inf\)',
      )
      for steps in (0, -3.0, np.array(np.nan), 'one')
    ),
    (
      {
        'num_steps': 9,
        'steps_per_epoch': 9,
        'optimizer': ScheduleFreeMuon(least_norm=None),
      },
      'steps_per_epoch=9: must be None where the optimizer has no least_norm',
    ),
    ({'optimizer': ScheduleFreeAdamW()}, r'must be a ScheduleFreeMuon\(…\)'),
    ({'optimizer': AdamW()}, r'must be a ScheduleFreeMuon\(…\)'),
    ({'optimizer': EMA}, 'one_minus_beta1=1.0: must be below 1'),
    *(
      ({'learning_rate': steps}, 'a rate; for the steps .* num_steps=900')
      for steps in (900, np.int64(900))
    ),
    ({'matrices': 3}, 'matrices=3: must be a function or None'),
    ({'loss_fn': 3}, 'loss_fn=3: must be a function or None'),
  ),
  ids=str,
)
def test_wrong_arguments_are_refused(arguments, message):
  with pytest.raises(ValueError, match=message):
    muon(**arguments)


@pytest.mark.parametrize(
  ('make', 'params', 'message'),
  (
    (muon, {'b': jnp.ones(3)}, 'learning_rate=None: must be a number or a sch'),
    (muon, {'w': jnp.ones((2, 3), jnp.float16)}, r"dtype of params\['w'\]"),
    (
      muon,
      {'n': jnp.int32(7), 'w': jnp.ones((2, 3))},
      r"dtype of params\['n'\]='int32': must be a float; if it is not trained, "
      'leave it out, as by optax.masked',
    ),
    (
      muon,
      {'b': jnp.ones(3, complex), 'w': jnp.ones((2, 3))},
      r"dtype of params\['b'\]='complex64': must be real: train its real and",
    ),
    (
      muon,
      {'b': 1.0, 'w': jnp.ones((2, 3))},
      'a leaf of params=1.0: must be an array',
    ),
    (
      functools.partial(schedule_free_muon, 0.05),
      {'w': jax.ShapeDtypeStruct((2, 3), jnp.float32)},
      r'an array; of shapes alone, jax.eval_shape\(tx.init, params\) works',
    ),
    (
      lambda: optax.masked(
        muon(loss_fn=lambda params: params['b'].sum()), {'b': False, 'w': True}
      ),
      {'b': jnp.ones(3), 'w': jnp.ones((2, 3))},
      'inside optax.masked and optax.multi_transform others than those trained',
    ),
    (
      functools.partial(muon, loss_fn=lambda params: params['none']),
      {'w': jnp.ones((2, 3))},
      r"loss_fn=.*\('none'\): must be a function of the parameters",
    ),
    (
      functools.partial(schedule_free_muon, matrices=lambda path: 3),
      {'w': jnp.ones((2, 3))},
      r"matrices=.*a Form, True, False or None for \['w'\]",
    ),
  ),
  ids=(
    *('no matrix', 'float16', 'integer', 'complex', 'scalar', 'shapes'),
    *('masked', 'loss_fn', 'matrices'),
  ),
)
def test_init_refuses_what_it_cannot_train(make, params, message):
  with pytest.raises(ValueError, match=message):
    make().init(params)


def test_an_update_needs_the_parameters():
  tx, params = muon(0.05), arrays(START)
  with pytest.raises(ValueError, match='params=None: must be those that are'):
    tx.update(params, tx.init(params))


def test_an_update_needs_its_own_state_and_trees_like_the_parameters():
  tx, params = muon(0.05), arrays(START)
  own, other = tx.init(params), optax.adamw(0.1).init(params)
  part = {'w': params['w']}
  with pytest.raises(ValueError, match='state=.tuple.: must be that of sch'):
    tx.update(params, other, params)
  with pytest.raises(ValueError, match='updates=.*: must be a tree like that'):
    tx.update(part, own, params)
  with pytest.raises(ValueError, match='params=.*: must be a tree like that'):
    tx.update(params, own, part)
  turned = {**params, 'w': params['w'].T}
  said = r'updates=.*\(4, 8\) in the place of \(8, 4\)\): must be a tree like'
  with pytest.raises(ValueError, match=said):
    tx.update(turned, own, params)
  deep = {'outer': {'b': params['b']}}
  with pytest.raises(ValueError, match=r'in the place of a tree\): must be'):
    tx.update({'outer': params['b']}, tx.init(deep), deep)


def test_a_guess_is_a_warning_and_a_trace_is_no_guess():
  params, said = arrays(START), r"the form of \['w'\] \(matrices=…"
  begin = functools.partial(TrainState.create, apply_fn=None, params=params)
  with pytest.warns(UserWarning, match=said) as found:
    schedule_free_muon().init(params)
    optax.chain(optax.identity(), schedule_free_muon()).init(params)
    begin(tx=schedule_free_muon())
    jax.jit(schedule_free_muon().init)(params)
  # Each names the line here, not that of a library which has called init.
  assert [warning.filename for warning in found] == [__file__] * 4
  # loss_of adds a matrix's outputs, so that w is told, and b is.
  traced = schedule_free_muon(0.05, loss_fn=loss_of)
  assert_same(trained(traced)[0], bare()[0])


def test_a_table_by_name_is_no_matrix():
  """Also where nnx hands its variables to init, and arrays to update."""
  tx = schedule_free_muon(0.05)
  params = {'embedding': jnp.ones((3, 2))}
  with pytest.warns(UserWarning, match='guessed'):
    state = tx.init(params)
  kept = state.base_optimizer_state[1].inner_states['rest'].inner_state[1]
  assert kept.nu['embedding'].shape == (3, 2)


def injected(rate, static_args=()):
  """Without static_args, optax takes other functions for schedules."""
  make = optax.inject_hyperparams(schedule_free_muon, static_args=static_args)
  return make(rate, matrices=FORMS)


WRAPPERS = {
  'chain': lambda: optax.chain(optax.identity(), muon(0.05)),
  'MultiSteps': lambda: optax.MultiSteps(muon(0.05), 1),
  'masked': lambda: optax.masked(muon(0.05), {'b': True, 'w': True}),
  'multi_transform': lambda: optax.multi_transform(
    {'all': muon(0.05)}, {'b': 'all', 'w': 'all'}
  ),
  'inject_hyperparams': lambda: injected(0.05),
  'injected partial': lambda: optax.inject_hyperparams(
    functools.partial(schedule_free_muon, matrices=FORMS)
  )(0.05),
  'static functions': lambda: injected(0.05, ('matrices', 'loss_fn')),
  'injected schedule': lambda: injected(optax.constant_schedule(0.05)),
  'apply_if_finite': lambda: optax.apply_if_finite(muon(0.05), 2),
}


@pytest.mark.parametrize('name', WRAPPERS)
def test_a_wrapper_of_optax_trains_the_same(name):
  """Under a jit that donates; the average is found at any depth."""
  params, state = trained(WRAPPERS[name]())
  x = schedule_free_eval_params(state, params)
  assert_close((params, x), bare(), rtol=1e-5, atol=1e-6)


def test_several_steps_make_one():
  tx = optax.MultiSteps(muon(0.05), 3)
  params, state = trained(tx, steps=3 * 2)
  # All gradients of three steps are those of the same y.
  expected, _ = trained(muon(0.05), steps=2)
  assert_close(params, expected, rtol=1e-5, atol=1e-6)


def test_a_part_of_the_parameters():
  """w has an average, b steps by gradient descent and has none."""
  parts = {'muon': muon(0.05), 'sgd': optax.sgd(0.1)}
  tx = optax.multi_transform(parts, {'b': 'sgd', 'w': 'muon'})
  params, state = trained(tx)
  x = schedule_free_eval_params(state, params)
  np.testing.assert_array_equal(x['b'], params['b'])
  assert np.abs(x['w'] - params['w']).max() > 0.01


def test_an_injected_rate_is_changed_between_steps():
  tx, params = injected(0.05), arrays(START)
  state = tx.init(params)
  state.hyperparams['learning_rate'] = jnp.float32(0.0)
  updates, _ = tx.update(grad_of(params), state, params)
  assert_same(updates, map_(np.zeros_like, START))
  with_peak = optax.inject_hyperparams(schedule_free_muon)(
    num_steps=4800, loss_fn=loss_of
  )
  state = with_peak.init(params)
  np.testing.assert_allclose(state.inner_state.peak, 0.04 * SIZE, rtol=1e-6)


def test_a_gradient_that_is_not_finite_is_skipped():
  tx = optax.apply_if_finite(muon(0.05), 2)
  params, state = trained(tx)
  before = host((params, state.inner_state))
  grads = map_(lambda p: jnp.full_like(p, jnp.nan), params)
  updates, state = jax.jit(tx.update)(grads, state, params)
  params = optax.apply_updates(params, updates)
  assert_same((params, state.inner_state), before)


def test_an_ensemble():
  """Three models at once train as each alone, and have their own peaks."""
  tx, sizes = muon(num_steps=9), (0.5, 1.0, 2.0)
  stack = lambda leaf: jnp.stack([size * leaf for size in sizes])
  params = map_(stack, START)
  state = jax.vmap(tx.init)(params)
  np.testing.assert_allclose(
    state.peak, [0.16 * size * SIZE for size in sizes], rtol=1e-6
  )

  @jax.jit
  @jax.vmap
  def step(params, state):
    updates, state = tx.update(grad_of(params), state, params)
    return optax.apply_updates(params, updates), state

  for _ in range(STEPS):
    params, state = step(params, state)
  with pytest.raises(ValueError, match=r'shape of b1=\(3,\): .*vmap this call'):
    schedule_free_eval_params(state, params)
  x = jax.vmap(schedule_free_eval_params)(state, params)
  for i, size in enumerate(sizes):
    alone, own = trained(tx, start=map_(lambda p, s=size: s * p, START))
    one = map_(lambda leaf, i=i: leaf[i], (params, x))
    expected = alone, schedule_free_eval_params(own, alone)
    assert_close(one, expected, rtol=1e-4, atol=1e-5)


def sharded(tree):
  """w by its rows over 8 devices, b on all of them."""
  mesh = Mesh(np.array(jax.devices()), ('model',))
  places = {'b': PartitionSpec(), 'w': PartitionSpec('model')}
  where = {name: NamedSharding(mesh, place) for name, place in places.items()}
  return jax.device_put(tree, where)


@pytest.mark.skipif(
  jax.__version_info__ < (0, 5),
  reason='jax 0.4 lays out what a sharded step returns as it likes',
)
def test_sharded_parameters_stay_sharded():
  tx, params = muon(0.05), sharded(START)
  state = tx.init(params)
  step = make_step(tx)
  for _ in range(STEPS):
    params, state = step(params, state)
    jax.block_until_ready(params)
  x = schedule_free_eval_params(state, params)
  assert_close((params, x), bare(), rtol=1e-4, atol=1e-5)
  for tree in (params, state.z, x):
    assert tree['w'].addressable_shards[0].data.shape == (1, 4)


def test_a_saved_run_goes_on(tmp_path):
  """From the shapes that init would make, as an abstract checkpoint has them."""
  ocp = loops.orbax_checkpoint()
  tx, step = muon(num_steps=9), make_step(muon(num_steps=9))
  saved = trained(tx, steps=3)
  like = jax.eval_shape(lambda p: (p, tx.init(p)), arrays(START))
  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(tmp_path / 'state', saved)
    checkpointer.wait_until_finished()
    restored = checkpointer.restore(tmp_path / 'state', like)
  assert isinstance(restored[1], ScheduleFreeState)
  for _ in range(3):
    restored = step(*restored)
  assert_same(restored, trained(tx, steps=6))


def test_a_restored_state_keeps_its_share():
  """As where a run is restored into other numbers: nothing jumps."""
  params, state = trained(muon(0.05), steps=3)
  other = ScheduleFreeMuon(one_minus_beta1=0.1)
  ends = []
  for optimizer in (ScheduleFreeMuon(), other):
    update = jax.jit(muon(0.05, optimizer=optimizer).update)
    updates, after = update(grad_of(params), state, params)
    y = optax.apply_updates(params, updates)
    assert after.b1 == np.float32(0.7)
    ends.append((y, schedule_free_eval_params(after, y)))
  assert_close(*ends)
  y, x = ends[1]
  assert_close(y, map_(lambda x, z: 0.7 * x + 0.3 * z, host(x), host(after.z)))


def test_optax_tells_what_belongs_to_the_parameters():
  """As for the sharding of a state."""
  if not hasattr(optax, 'tree'):
    pytest.skip('tree_map_params of this optax calls what jax has removed')
  tx = muon()
  state = tx.init(arrays(START))
  found = optax.tree_map_params(
    tx, lambda leaf: 'w', state, transform_non_params=lambda leaf: 'number'
  )
  assert found.z == {'b': 'w', 'w': 'w'}
  assert (found.b1, found.peak, found.count) == ('number',) * 3


def test_flax_train_state():
  state = TrainState.create(apply_fn=None, params=arrays(START), tx=muon(0.05))
  for _ in range(STEPS):
    state = state.apply_gradients(grads=jax.jit(grad_of)(state.params))
  x = schedule_free_eval_params(state.opt_state, state.params)
  assert_close((state.params, x), bare(), rtol=1e-5, atol=1e-6)


def test_nnx_optimizer():
  nnx = pytest.importorskip('flax.nnx')
  if not hasattr(nnx, 'as_pure'):
    pytest.skip('this flax hands variables to the update')

  class Net(nnx.Module):
    def __init__(self):
      self.b = nnx.Param(jnp.asarray(START['b']))
      self.w = nnx.Param(jnp.asarray(START['w']))

  loss = lambda net: loss_of({'b': net.b[...], 'w': net.w[...]})
  net = Net()
  optimizer = nnx.Optimizer(net, muon(0.05), wrt=nnx.Param)
  for _ in range(STEPS):
    nnx.jit(lambda net, opt: opt.update(net, nnx.grad(loss)(net)))(
      net, optimizer
    )
  params, opt_state = nnx.state(net, nnx.Param), optimizer.opt_state
  y = dict(nnx.as_pure(params))
  for given in ((opt_state, params), nnx.as_pure((opt_state, params))):
    x = schedule_free_eval_params(*given)
    assert_close((y, dict(x)), bare(), rtol=1e-5, atol=1e-6)
  with pytest.raises(ValueError, match=r'params=.*nnx.state\(model, nnx.Param'):
    schedule_free_eval_params(opt_state, net)
  with pytest.raises(ValueError, match='of an nnx.Optimizer, optimizer.opt_st'):
    schedule_free_eval_params(nnx.state(optimizer), params)
  nnx.update(net, x)
  np.testing.assert_array_equal(net.w[...], x['w'])


@pytest.mark.skipif(
  jax.__version_info__ < (0, 8),
  reason='the optax beside older versions calls a mask that is a module',
)
def test_equinox():
  eqx = pytest.importorskip('equinox')
  linear = eqx.nn.Linear(8, 4, key=jax.random.PRNGKey(0))
  where = lambda model: (model.weight, model.bias)
  model = eqx.tree_at(where, linear, (jnp.asarray(START['w'].T), START['b']))
  model = map_(jnp.asarray, model)
  tx = schedule_free_muon(
    0.05, matrices={'.weight': matrix(inputs=(1,), outputs=(0,))}.get
  )
  state = tx.init(eqx.filter(model, eqx.is_inexact_array))

  @eqx.filter_jit(donate='all')
  def step(model, state):
    loss = lambda model: jnp.mean((jax.vmap(model)(INPUTS) - GOAL) ** 2)
    grads = eqx.filter_grad(loss)(model)
    arrays_of = eqx.filter(model, eqx.is_inexact_array)
    updates, state = tx.update(grads, state, arrays_of)
    return eqx.apply_updates(model, updates), state

  for _ in range(STEPS):
    model, state = step(model, state)
  x = schedule_free_eval_params(state, model)
  found = {'b': x.bias, 'w': x.weight.T}
  assert_close(found, bare()[1], rtol=1e-5, atol=1e-6)


def test_in_bfloat16_it_trains_as_in_float32():
  """300 steps, most of them below the rounding of y; then what it costs."""
  exact = lambda tree: map_(lambda p: p.astype(jnp.bfloat16), tree)
  tx = muon(optax.linear_schedule(0.02, 0.0, 300))
  params, state = trained(tx, steps=300, start=exact(START))
  wide, own = trained(tx, steps=300)
  x = schedule_free_eval_params(state, params)
  assert params['w'].dtype == x['w'].dtype == jnp.bfloat16
  assert state.copies['w'].dtype == state.z['w'].dtype == jnp.float32
  expected = schedule_free_eval_params(own, wide)
  # Half a unit in the last place of 8 bits, and the gradients' rounding.
  assert_close(map_(np.float32, x), expected, rtol=0.02, atol=0.02)
  for kept, size in ((state, 12), (own, 8)):  # bytes of state a parameter
    leaves = jax.tree_util.tree_leaves(kept)
    # 36 numbers are trained; the matrix has the mean norm of its gradients.
    assert sum(leaf.nbytes for leaf in leaves if leaf.ndim) == 36 * size + 4


def test_no_state_of_it_is_refused():
  params = arrays(START)
  with pytest.raises(ValueError, match=r'opt_state=.tuple.: must be one with'):
    schedule_free_eval_params(optax.adam(0.1).init(params), params)

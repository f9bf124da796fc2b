"""Optimizers of optax by their names, inside the cycles of a submission."""

import dataclasses
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers.runs import GENERATIONS, PARAMS, assert_close, new_driver
from reset_cycles.any_optax.from_optax import FromOptax
from reset_cycles.cli import main as cli
from reset_cycles.core.devices import Devices
from reset_cycles.engine.model_reset import Model, ModelReset, role_in
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.roles import COUNT, KEPT, MOMENT
from reset_cycles.optimizers.step import Step
from reset_cycles.soft_reset import ResetPlan
from reset_cycles.views import settings_json

RATE = np.float32(0.1)
LIKE = {
  'w': jax.ShapeDtypeStruct((3, 2), jnp.float32),
  'b': jax.ShapeDtypeStruct((2,), jnp.float32),
}
BEGUN = {
  'b': np.array([1.0, -2.0], np.float32),
  'w': np.arange(6, dtype=np.float32).reshape(3, 2) / 4 - 0.5,
}


def grads_of(step):
  rng = np.random.default_rng(step)
  return {
    name: rng.normal(size=x.shape).astype(np.float32)
    for name, x in BEGUN.items()
  }


@functools.cache
def trained(optimizer, steps=5):
  """(parameters, state) after so many steps at a constant rate."""
  own = optimizer.build(Step(RATE))
  params, state = BEGUN, jax.jit(own.init)(BEGUN)
  update = jax.jit(own.update)
  for step in range(steps):
    updates, state = update(grads_of(step), state, params)
    params = optax.apply_updates(params, updates)
  return params, state


def reset(optimizer, plan):
  """A reset of what has been trained, by a fresh model of ones."""
  params, state = jax.tree_util.tree_map(jnp.copy, trained(optimizer))
  devices = Devices()
  model = devices.place(Model(params, (), state))
  init = optimizer.build(Step(RATE)).init
  resets = ModelReset(devices, role_in(optimizer.roles(LIKE)), init, model)
  fresh = {name: np.ones_like(x) for name, x in BEGUN.items()}
  return resets(model, (fresh, ()), plan)[0]


SOFT = ResetPlan(0.25, 0.875, True)  # tau, what is kept of moments, of counts


def test_adam_by_its_name_is_the_submissions_own():
  own = AdamW(one_minus_beta1=0.1, beta2=0.99, weight_decay=0.5, eps=1e-6)
  named = FromOptax('adamw', {'b1': 0.9, 'b2': 0.99, 'eps': 1e-6}, 0.5)
  assert_close(trained(named)[0], trained(own)[0], 1e-6, 1e-6)


def test_the_weight_decay_is_optax_own_where_none_is_given():
  params, m, v = np.float64(BEGUN['w']), 0.0, 0.0
  for step in range(5):
    g = np.float64(grads_of(step)['w'])
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    corrected = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
    direction = corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    params = params - 0.1 * (direction + 1e-4 * params)
  found = trained(FromOptax('adamw'))[0]['w']
  np.testing.assert_allclose(found, params, rtol=0, atol=1e-5)
  none = trained(FromOptax('adamw', weight_decay=0.0))[0]['w']
  assert np.abs(none - found).max() > 1e-5


def test_momentum_by_hand():
  params, m = np.float64(BEGUN['w']), 0.0
  for step in range(5):
    m = 0.75 * m + np.float64(grads_of(step)['w'])
    params = params - 0.1 * m
  found = trained(FromOptax('sgd', {'momentum': 0.75}))[0]['w']
  np.testing.assert_allclose(found, params, rtol=2e-6, atol=1e-6)


def test_rmsprop_by_hand():
  params, v = np.float64(BEGUN['w']), 0.0
  for step in range(5):
    g = np.float64(grads_of(step)['w'])
    v = 0.75 * v + 0.25 * g**2
    params = params - 0.1 * g / np.sqrt(v + 1e-6)
  found = trained(FromOptax('rmsprop', {'decay': 0.75, 'eps': 1e-6}))[0]['w']
  np.testing.assert_allclose(found, params, rtol=0, atol=1e-5)


def test_l2_is_added_to_the_gradient_before_adam_divides():
  """And the decay of AdamW is not: thesis, table of optimizers."""
  params, m, v = np.float64(BEGUN['w']), 0.0, 0.0
  for step in range(5):
    g = np.float64(grads_of(step)['w']) + 0.5 * params
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    corrected = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
    params = params - 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
  found = trained(FromOptax('adam', l2=0.5))[0]['w']
  np.testing.assert_allclose(found, params, rtol=0, atol=1e-5)
  decoupled = trained(FromOptax('adamw', weight_decay=0.5))[0]['w']
  assert np.abs(decoupled - params).max() > 0.01


@pytest.mark.parametrize(
  'make',
  (
    lambda decay: FromOptax('adamw', weight_decay=decay),
    lambda decay: FromOptax('adam', l2=decay),
  ),
)
def test_a_step_has_two_factors_on_the_weight_decay(make):
  """Twice by its cycle's shape, and three times by the epochs."""

  def after(optimizer, step):
    tx = optimizer.build(step)
    return tx.update(grads_of(0), tx.init(BEGUN), BEGUN)[0]

  found = after(make(0.125), Step(RATE, 2.0, decay_factor=3.0))
  assert_close(found, after(make(0.75), Step(RATE)), 1e-6, 1e-6)


@pytest.mark.parametrize(
  ('optimizer', 'moments', 'kept'),
  (
    (FromOptax('lamb', {'b1': 0.9}), ('mu', 'nu'), ('count',)),
    (FromOptax('rmsprop'), ('nu',), ()),
    (
      FromOptax('adagrad', {'initial_accumulator_value': 0.0}),
      ('sum_of_squares',),
      (),
    ),
    (FromOptax('sgd', {'momentum': 0.9}, l2=0.1), ('trace',), ()),
    (
      FromOptax('adafactor', {'min_dim_size_to_factor': 2}),
      ('v_row', 'v_col', 'v'),
      ('count',),
    ),
  ),
  ids=lambda value: getattr(value, 'name', None),
)
def test_a_soft_reset_shrinks_moments_and_leaves_counts(
  optimizer, moments, kept
):
  found, before = reset(optimizer, SOFT), trained(optimizer)
  for name, old in before[0].items():
    expected = 0.75 * old + 0.25
    np.testing.assert_allclose(
      found.params[name], expected, rtol=1e-5, atol=1e-6
    )
  leaves = jax.tree_util.tree_flatten_with_path(before[1])[0]
  after = jax.tree_util.tree_leaves(found.opt_state)
  seen = set()
  for (path, old), new in zip(leaves, after):
    [name] = {getattr(key, 'name', '') for key in path} & {*moments, *kept} or [
      ''
    ]
    keep = 0.875 if name in moments else 1.0
    np.testing.assert_allclose(
      new, keep * np.asarray(old), rtol=1e-5, atol=1e-7
    )
    seen.add(name)
  assert seen >= {*moments, *kept}


def test_an_average_of_sgd():
  """ASGD: the mean of the iterates, each by its age."""
  optimizer = EMA(FromOptax('sgd'), decay=0.5)
  raw, rows = np.float64(BEGUN['w']), []
  for step in range(5):
    raw = raw - 0.1 * np.float64(grads_of(step)['w'])
    rows.append(raw)
  mean = np.average(rows, axis=0, weights=[0.5 ** (4 - i) for i in range(5)])
  params, state = trained(optimizer)
  np.testing.assert_allclose(params['w'], mean, rtol=1e-5, atol=1e-6)
  found = reset(optimizer, SOFT).opt_state
  np.testing.assert_allclose(
    found.z['w'], 0.75 * state.z['w'] + 0.25, rtol=1e-5, atol=1e-6
  )
  np.testing.assert_allclose(
    found.weight_sum, 0.75 * state.weight_sum, rtol=1e-6
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_submission_runs_through_a_reset(generation, tmp_path):
  own = FromOptax('lamb', {'b1': 0.9}, weight_decay=0.01)
  driver = new_driver(dataclasses.replace(PARAMS, optimizer=own), generation)
  driver.run(until=12)
  run = driver.optimizer_state[1]
  assert run.control.cycle > 1
  leaves = jax.tree_util.tree_leaves(run.devices.get(driver.params))
  assert all(np.isfinite(leaf).all() for leaf in leaves)


# What asks for what a submission is not told, remembers several steps, or has a
# rate of its own. What an optax lacks is not looked at.
REFUSED = {
  'lbfgs': "'value'",
  'rprop': 'its updates would be the same whatever the learning rate',
  'dpsgd': 'missing 3 required positional arguments',
  'schedule_free': 'evaluated of it is not what it trains',
  'schedule_free_adamw': 'evaluated of it is not what it trains',
  'schedule_free_sgd': 'evaluated of it is not what it trains',
  'galore': 'must be one with a blend of ',
  'momo': "'value'",
  'momo_adam': "'value'",
  'sophia': 'obj_fn',
}
NAMES = sorted(
  name
  for place in (optax, getattr(optax, 'contrib', None))
  for name in dir(place)
  if not name.startswith(('_', 'scale_by_'))
  and 'learning_rate'
  in getattr(
    getattr(getattr(place, name), '__code__', None), 'co_varnames', ()
  )[:3]
)


@pytest.mark.filterwarnings('ignore::DeprecationWarning')
@pytest.mark.filterwarnings('ignore:Specifying a key:UserWarning')
@pytest.mark.parametrize('name', NAMES)
def test_every_optimizer_of_optax_steps_or_is_refused(name):
  if name in REFUSED:
    with pytest.raises(ValueError) as caught:
      FromOptax(name).roles(LIKE)
    assert REFUSED[name] in str(caught.value)
    return
  optimizer = FromOptax(name)
  params, state = trained(optimizer, 3)
  assert not np.array_equal(params['w'], BEGUN['w'])
  assert np.isfinite(params['w']).all()
  role = optimizer.roles(LIKE)
  for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
    names = {getattr(key, 'name', '') for key in path}
    if 'mu' in names and np.ndim(leaf):
      assert role(path) == MOMENT
    if 'count' in names:
      assert role(path) in (COUNT, KEPT)


@pytest.mark.parametrize(
  ('make', 'message'),
  (
    (lambda: FromOptax('lam'), "name='lam': optax has no such optimizer"),
    (lambda: FromOptax('lam'), 'Did you mean lamb?'),
    (lambda: FromOptax('RMSprop'), 'Did you mean rmsprop?'),
    (lambda: FromOptax('adam', (('b1', 0.9), ('b1', 0.8))), 'a name twice'),
    (lambda: FromOptax('adam', {'b1': BEGUN['b']}), "arguments['b1']=array"),
    (lambda: FromOptax('sgd', {'nesterov': print}), 'a number, True or False'),
    (lambda: FromOptax(3), 'name=3: optax has no such'),
    (lambda: FromOptax('clip'), "name='clip': optax has no such"),
    (lambda: FromOptax('adam', {'b3': 1}), "unexpected keyword argument 'b3'"),
    (lambda: FromOptax('adam', 3), 'arguments=3: must be a dictionary of arg'),
    (lambda: FromOptax('adam', {'learning_rate': 1}), 'without learning_rate'),
    (lambda: FromOptax('adamw', {'weight_decay': 1}), 'without weight_decay'),
    (lambda: FromOptax('sgd', weight_decay=0.1), 'l2 is for any optimizer'),
    (
      lambda: FromOptax('sgd', l2=-1.0),
      'l2=-1.0: must be a number in [0, inf)',
    ),
  ),
)
def test_what_is_wrong_is_named(make, message):
  with pytest.raises(ValueError) as caught:
    make()
  assert message in str(caught.value)


def test_a_run_with_one_that_is_refused_does_not_begin():
  own = dataclasses.replace(PARAMS, optimizer=FromOptax('dpsgd'))
  with pytest.raises(
    ValueError, match="optimizer=FromOptax\\(name='dpsgd'.*missing 3 req"
  ):
    new_driver(own)


def test_json_and_export_hold_it(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  own = FromOptax('lamb', {'eps': 1e-7, 'b1': 0.75}, weight_decay=0.1)
  assert own.arguments == (('b1', 0.75), ('eps', 1e-7))
  assert hash(own) == hash(eval(repr(own)))
  params = dataclasses.replace(PARAMS, optimizer=own)
  plain = json.loads(json.dumps(as_plain(params)))
  assert settings_json.from_plain(plain) == params
  plain['optimizer']['arguments'] = {'b1': 0.75, 'eps': 1e-7}
  assert settings_json.from_plain(plain) == params
  pathlib.Path('mine.json').write_text(json.dumps(plain))
  assert cli.main(['export', '--out=x', '--settings=mine.json']) == 0
  text = pathlib.Path('x/self_tuning/own/schedule_params.py').read_text()
  assert 'from .any_optax.from_optax import FromOptax\n' in text
  assert "FromOptax(name='lamb'" in ''.join(text.split())
  assert pathlib.Path('x/self_tuning/own/any_optax/roles.py').is_file()


def test_what_every_run_would_refuse_is_not_exported(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.chdir(tmp_path)
  params = dataclasses.replace(PARAMS, optimizer=FromOptax('dpsgd'))
  pathlib.Path('mine.json').write_text(json.dumps(as_plain(params)))
  assert cli.main(['export', '--out=x', '--settings=mine.json']) == 2
  assert "FromOptax(name='dpsgd'" in capsys.readouterr().err
  assert not pathlib.Path('x').exists()

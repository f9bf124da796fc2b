"""What is read off the benchmark's objects."""

import enum
import math
import re
import types

import flax
import jax
import jax.numpy as jnp
import pytest
from absl import flags

from helpers import fake_benchmark
from reset_cycles.core import workload as workload_facts
from reset_cycles.core.evaluation import Target
from reset_cycles.core.forms import DEPTHWISE, TABLE, VECTOR, matrix
from reset_cycles.core.workload import (
  budget_seconds,
  has_device_axis,
  most_steps,
  read_target,
  spec_of,
  steps_per_epoch,
  traced_forms,
  types_of,
)
from reset_cycles.mini_algoperf import workloads


def workload_with(metric, reached, value=0.1):
  return types.SimpleNamespace(
    target_metric_name=metric,
    validation_target_value=value,
    has_reached_validation_target=reached,
  )


@pytest.mark.parametrize('value', (0.28, 0.0, -1.0))
def test_direction_is_asked_of_the_workload(value):
  """Whether or not tau is defined for the target."""
  rising = workload_with('map', lambda r: r['validation/map'] > value, value)
  assert read_target(rising) == Target('validation/map', value, True)
  falling = workload_with('wer', lambda r: r['validation/wer'] < value, value)
  assert read_target(falling) == Target('validation/wer', value, False)


@pytest.mark.parametrize(
  ('generation', 'seconds', 'expected'),
  (
    ('pmap', 100, 300.0),
    ('jit', 100, 150.0),
    *(('jit', s, math.nan) for s in (None, 0, -5, math.nan, math.inf)),
  ),
)
def test_the_budget(generation, seconds, expected):
  workload = fake_benchmark.WORKLOADS[generation]()
  workload.max_allowed_runtime_sec = seconds
  found = budget_seconds(workload)
  assert found == pytest.approx(expected, abs=0, nan_ok=True)
  own = seconds if math.isfinite(expected) else math.nan
  found = budget_seconds(workload, is_tuned=True)
  assert found == pytest.approx(own, abs=0, nan_ok=True)
  assert math.isnan(budget_seconds(types.SimpleNamespace()))


def test_a_budget_that_is_no_number():
  workload = fake_benchmark.TinyWorkload()
  workload.max_allowed_runtime_sec = 'an hour'
  right = "max_allowed_runtime_sec='an hour': must be a number of seconds, or N"
  with pytest.raises(ValueError, match=right):
    budget_seconds(workload)


@pytest.mark.parametrize(
  ('examples', 'batch_size', 'expected'),
  (
    (256, 16, 16.0),
    (100, 64, 1.5625),
    (10, 64, 1.0),  # a batch that is larger than the data
    *((wrong, 16, None) for wrong in (0, -5, math.inf, math.nan, None, 'many')),
    (256, 0, None),
  ),
)
def test_the_steps_of_an_epoch(examples, batch_size, expected):
  workload = fake_benchmark.TinyWorkload()
  workload.num_train_examples = examples
  assert steps_per_epoch(workload, batch_size) == expected
  assert steps_per_epoch(types.SimpleNamespace(), batch_size) is None


@pytest.mark.parametrize('value', (math.nan, math.inf, -math.inf))
def test_targets_that_are_refused(value):
  for answer in (True, False):
    odd = workload_with('odd', lambda results, answer=answer: answer)
    with pytest.raises(ValueError, match="target_metric_name='odd'"):
      read_target(odd)
  wrong = workload_with('map', lambda r: r['validation/map'] > 0, value)
  with pytest.raises(ValueError, match='validation_target_value.*be finite'):
    read_target(wrong)


def test_a_target_that_is_no_number():
  wrong = workload_with('map', lambda r: r['validation/map'] > 0, None)
  with pytest.raises(ValueError, match='validation_target_value=None: must be'):
    read_target(wrong)


def test_spec_of():
  assert spec_of(fake_benchmark.PmapTinyWorkload()) is fake_benchmark
  with pytest.raises(ValueError, match='workload=object'):
    spec_of(object())


def test_device_axis():
  workload = fake_benchmark.TinyWorkload()
  params, _ = workload.init_model_fn(jax.random.PRNGKey(0))
  assert not has_device_axis(workload, params)
  replicated = flax.jax_utils.replicate(params)
  assert has_device_axis(workload, replicated)
  twice = flax.jax_utils.replicate(replicated)
  for other in (twice, {**params, 'bias': params['bias'][None]}):
    with pytest.raises(ValueError, match='neither the shapes'):
      has_device_axis(workload, other)


@pytest.mark.parametrize(
  ('given', 'expected'), ((None, math.inf), (0, math.inf), (300, 300.0))
)
def test_the_steps_that_the_runner_allows(given, expected, monkeypatch):
  own = flags.FlagValues()
  monkeypatch.setattr(flags, 'FLAGS', own)
  assert most_steps() == math.inf  # not defined, and not parsed
  flags.DEFINE_integer('max_global_steps', given, '', flag_values=own)
  assert most_steps() == math.inf
  own(['program'])
  assert most_steps() == expected


class Kind(enum.Enum):
  WEIGHT = 0
  EMBEDDING = 1
  ATTENTION_BIAS = 2
  LAYER_NORM_SCALE = 3
  CONV_WEIGHT = 4


class Typed:
  """Its types have keys in lower case, in another order than the parameters'."""

  model_params_types = {
    'b': {'embedding': Kind.EMBEDDING, 'kernel': Kind.CONV_WEIGHT},
    'a': {'bias': Kind.ATTENTION_BIAS, 'kernel': Kind.WEIGHT},
    'layernorm': {'scale': Kind.LAYER_NORM_SCALE},
  }


TREE = {
  'B': {'embedding': 0, 'kernel': 0},
  'a': {'bias': 0, 'kernel': 0},
  'LayerNorm': {'scale': 0},
}


def test_the_benchmarks_types_in_the_order_of_the_leaves():
  """In the order of leaves: B, LayerNorm, a; upper case comes first."""
  for params in (TREE, flax.core.freeze(TREE)):
    assert workload_facts.types_of(Typed(), params) == (
      *('EMBEDDING', 'CONV_WEIGHT', 'LAYER_NORM_SCALE'),
      *('ATTENTION_BIAS', 'WEIGHT'),
    )


def test_the_types_of_the_benchmark():
  kinds = ('EMBEDDING', 'CONV_WEIGHT', 'LAYER_NORM_SCALE', 'ATTENTION_BIAS')
  for params in (TREE, flax.core.freeze(TREE)):
    assert types_of(Typed(), params) == (*kinds, 'WEIGHT')
  assert types_of(object(), TREE) is None
  assert types_of(Typed(), {'other': 0}) is None


class Model:
  """Makes parameters, and uses them as a model does."""

  def __init__(self, num_axes_of_devices=0, looks=False):
    self.param_shapes = None
    self.model = 'of the runner'
    self.lead, self.looks = (8,) * num_axes_of_devices, looks

  def init_model_fn(self, rng):
    self.model = 'anew'
    self.made = rng
    params = {
      'filter': jax.random.normal(rng, (3, 1, 4)),
      'kernel': jax.random.normal(rng, (8, 4)),
      'table': jax.random.normal(rng, (9, 4)),
      'unused': jax.random.normal(rng, (2, 2)),
    }
    rows = params['table'][jnp.array([[0, 1]])]
    jax.lax.conv_general_dilated(
      rows @ params['kernel'].T @ params['kernel'],
      params['filter'],
      (1,),
      'SAME',
      dimension_numbers=('NHC', 'HIO', 'NHC'),
      feature_group_count=4,
    )
    if self.looks and params['kernel'].sum() > 0:
      params['more'] = params['kernel']
    shape_of = lambda x: types.SimpleNamespace(shape_tuple=x.shape)
    self.param_shapes = jax.tree_util.tree_map(shape_of, params)
    spread = lambda x: jnp.broadcast_to(x, self.lead + x.shape)
    return jax.tree_util.tree_map(spread, params), None


@pytest.mark.parametrize('num_axes_of_devices', (0, 1))
def test_forms_are_read_off_the_trace_of_the_initialisation(
  num_axes_of_devices, key
):
  model = Model(num_axes_of_devices)
  shapes = {'filter': (3, 1, 4), 'kernel': (8, 4), 'table': (9, 4)}
  model.param_shapes = {
    name: types.SimpleNamespace(shape_tuple=shape)
    for name, shape in {**shapes, 'unused': (2, 2)}.items()
  }
  before = dict(vars(model))
  # The kernel is used as (out, in) first.
  assert traced_forms(model, key) == (DEPTHWISE, matrix([1], [0]), TABLE, None)
  assert vars(model) == before


def test_a_model_that_looks_at_its_values_has_no_trace(key):
  model = Model(looks=True)
  before = dict(vars(model))
  assert traced_forms(model, key) is None
  assert vars(model) == before


@pytest.mark.parametrize('error', (AssertionError, KeyError, OverflowError))
def test_whatever_a_model_raises_while_it_is_traced_loses_no_run(key, error):
  model = Model()

  def init_model_fn(rng):
    model.was_traced = isinstance(rng, jax.core.Tracer)
    raise error('unforeseen')

  model.init_model_fn = init_model_fn
  before = dict(vars(model))
  assert traced_forms(model, key) is None
  assert vars(model) == before


@pytest.mark.parametrize('name', workloads.WORKLOADS)
def test_both_generations_of_a_stand_in_have_the_same_forms(name, key):
  both = []
  for generation in ('jit', 'pmap'):
    workload = workloads.get_workload(name, generation)
    with workload_facts.without_replication():
      jax.eval_shape(workload.init_model_fn, key)
    both.append(traced_forms(workload, key))
  assert both[0] == both[1]
  shapes = jax.tree_util.tree_leaves(workload.param_shapes)
  for form, shape in zip(both[0], shapes):
    if form is None:
      # Nobody asks of a number, and an example of one row has one at the end.
      assert shape.shape_tuple == (1,)
    elif form.is_matrix:
      matrices, fan_in, fan_out = form.sides(shape.shape_tuple)
      assert matrices == 1 and min(fan_in, fan_out) > 1
    elif len(shape.shape_tuple) == 1:
      assert form == VECTOR


def test_types_that_are_not_known():
  class Unmade:
    @property
    def model_params_types(self):
      raise ValueError('call init_model_fn first')

  assert workload_facts.types_of(object(), TREE) is None
  assert workload_facts.types_of(Unmade(), TREE) is None
  assert workload_facts.types_of(Typed(), {'other': 0}) is None


@pytest.mark.parametrize('name', ('digits', 'molecules', 'translation'))
def test_the_forms_of_a_stand_in(name, key):
  """By the trace; matrices are what is no bias and no table of words."""
  workload = workloads.get_workload(name)
  params, _ = jax.eval_shape(workload.init_model_fn, key)
  answers = workload_facts.forms_of(workload, params, key)
  leaves = jax.tree_util.tree_flatten_with_path(params)[0]
  assert len(answers) == len(leaves)
  several = 0
  for (path, leaf), answer in zip(leaves, answers):
    assert not answer.is_guess
    if len(leaf.shape) > 1:
      name = jax.tree_util.keystr(path).lower()
      is_layer = not re.search(r"bias|'embedding'\]$", name)
      assert answer.form.is_matrix == is_layer, name
      several += 1
  assert several > 1

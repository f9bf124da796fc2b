"""The workloads: losses, metrics, data, batches, both generations."""

import enum
import functools
import hashlib
import itertools
import math

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from helpers.run_files import python
from reset_cycles.mini_algoperf import spec, targets
from reset_cycles.mini_algoperf.workloads import (
  WORKLOADS,
  base,
  get_workload,
  graph_batches,
  photos,
  speech,
  translation,
)
from reset_cycles.mini_algoperf.workloads.molecules import (
  mean_average_precision,
)
from reset_cycles.research.board import stand_in
from reset_cycles.research.board.conditions import Condition

NAMES = pytest.mark.parametrize('name', sorted(WORKLOADS))
METRICS = {
  'accuracy': 1, 'bleu': 1, 'error_rate': -1, 'loss': -1, 'ppl': -1, 'ssim': 1,
  'mean_average_precision': 1,
}  # fmt: skip
NUM_DEVICES = jax.local_device_count()
KEY = jax.random.PRNGKey(0)


def ready(name, generation='jit'):
  """(workload, params, model_state), compiled once."""
  return _ready(name, generation)


@functools.cache  # to which a default and the same value given are two things
def _ready(name, generation):
  workload = get_workload(name, generation)
  if generation == 'pmap':
    _share_init(workload, name)
  return (workload, *workload.init_model_fn(KEY))


def _share_init(workload, name):
  """Another workload of the same model need not trace its initialisation."""
  workload._init_fn = ready(name)[0]._init_fn


def _queue(workload, seed=1, size=None):
  size = size or workload.default_batch_size
  key = jax.random.PRNGKey(seed)
  return workload._build_input_queue(key, 'train', None, size)


def _evaluate(workload, params, model_state):
  return workload.eval_model(
    workload.eval_batch_size, params, model_state, None, None, None, 0
  )


def _logits_fn(workload, mode=spec.ForwardPassMode.EVAL, rng=None, **settings):
  """Of parameters, a batch and a model state, compiled."""
  rest = (mode, rng, False)
  return jax.jit(
    lambda *inputs: workload.model_fn(*inputs, *rest, **settings)[0]
  )


def _equal(first, second):
  pairs = zip(*map(jax.tree_util.tree_leaves, (first, second)))
  return all(np.array_equal(a, b) for a, b in pairs)


# The registry and the API.


def test_what_is_unknown_is_named_with_what_is_known():
  with pytest.raises(
    ValueError, match="'mnist' is unknown.*clicks.*digits, .*, waves, or"
  ):
    get_workload('mnist')
  with pytest.raises(ValueError, match="generation: 'tpu' .*jit, pmap"):
    get_workload('digits', 'tpu')
  workload = get_workload('digits')
  with pytest.raises(ValueError, match="split: 'dev' has no queue"):
    workload._build_input_queue(None, 'dev', None, 128)
  for size in (0, -8, NUM_DEVICES + 1 if NUM_DEVICES > 1 else 0):
    with pytest.raises(ValueError, match=f'global_batch_size: {size} is not'):
      workload._build_input_queue(KEY, 'train', None, size)


def test_importing_needs_no_package_and_making_one_its_own():
  code = """
import sys
sys.modules['sacrebleu'] = sys.modules['sklearn'] = None
from reset_cycles.mini_algoperf import experiment, targets, workloads
for name in workloads.WORKLOADS:
  try:
    workloads.get_workload(name)
  except ModuleNotFoundError as e:
    print(name, e.name)
"""
  images = ('digits', 'residual', 'patches', 'patches_glu')
  assert {*python(code).splitlines()} == {
    *(f'{name} sklearn' for name in (*images, 'photos', 'photos_tanh')),
    *(f'{name} sacrebleu' for name in ('translation', 'translation_glu')),
  }


@NAMES
def test_a_target_must_be_surpassed(name, monkeypatch):
  workload = get_workload(name)
  found = {'validation_target': 0.25, 'test_target': 0.5}
  monkeypatch.setattr(base, 'read_targets', lambda path: {name: found})
  better = METRICS[workload.target_metric_name]
  for split in ('validation', 'test'):
    reached = getattr(workload, f'has_reached_{split}_target')
    target = getattr(workload, f'{split}_target_value')
    key = f'{split}/{workload.target_metric_name}'
    assert reached({key: target + better * 1e-6})
    for value in (target, target - better * 1e-6, math.nan):
      assert not reached({key: value})


def test_parameter_types_follow_the_modules():
  workload = get_workload('digits')
  for name in ('param_shapes', 'model_params_types'):
    with pytest.raises(ValueError, match=f'{name}: call init_model_fn first'):
      getattr(workload, name)
  workload = ready('digits')[0]
  kernel = workload.param_shapes['Dense_0']['kernel']
  assert kernel == spec.ShapeTuple((512, 10))
  for name, module, leaf, kind in (
    ('digits', 'batchnorm_0', 'scale', 'BATCH_NORM_SCALE'),
    ('digits', 'batchnorm_0', 'bias', 'BATCH_NORM_BIAS'),
    ('digits', 'conv_0', 'kernel', 'CONV_WEIGHT'),
    ('digits', 'dense_0', 'kernel', 'WEIGHT'),
    ('digits', 'dense_0', 'bias', 'BIAS'),
    ('molecules', 'layernorm_0', 'scale', 'LAYER_NORM_SCALE'),
    ('molecules', 'node_embedding', 'kernel', 'EMBEDDING'),
    ('clicks', 'embedding', 'embedding', 'EMBEDDING'),
    ('waves', 'gatedrecurrence_0', 'recurrent', 'WEIGHT'),
    ('photos', 'convtranspose_0', 'kernel', 'CONV_WEIGHT'),
  ):
    found = ready(name)[0].model_params_types[module][leaf]
    assert found == spec.ParameterType[kind]
  attention = ready('text')[0].model_params_types['block_0']['attention']
  assert attention['query']['kernel'] == spec.ParameterType.ATTENTION_Q
  for name in WORKLOADS:
    workload = ready(name)[0]
    output = [k for k in workload.param_shapes if workload.is_output_params(k)]
    assert len(output) == 1


# Losses, by hand.


def test_digits_loss_masks_and_smooths():
  loss_fn = get_workload('digits').loss_fn
  # Softmax of the first row: 3/12 for class 0 and 1/12 for the nine others.
  logits = np.zeros((2, 10), np.float32)
  logits[0, 0] = math.log(3)
  labels, mask = np.array([0, 7]), np.array([1.0, 0.0])
  whole, masked = loss_fn(labels, logits), loss_fn(labels, logits, mask)
  losses = [math.log(4), math.log(10)]
  np.testing.assert_allclose(whole['per_example'], losses, rtol=1e-6)
  np.testing.assert_allclose(masked['per_example'], losses * mask, rtol=1e-6)
  np.testing.assert_allclose(masked['summed'], math.log(4), rtol=1e-6)
  assert (whole['n_valid_examples'], masked['n_valid_examples']) == (2, 1)
  # s = 0.1: weight 0.91 on the label; log 12 - 0.91 log 3 = 1.485169.
  smooth = loss_fn(labels, logits, mask, 0.1)
  np.testing.assert_allclose(smooth['summed'], 1.485169, rtol=1e-6)


def test_molecules_loss_masks_labels_and_smooths():
  loss_fn = get_workload('molecules').loss_fn
  logits, labels, mask = np.zeros((3, 2, 128), np.float32)
  logits[0, 0] = math.log(3)
  labels[0, 0] = mask[0, 0] = mask[1, 5] = 1
  # Probabilities 3/4 of a positive and 1/2 of a negative label.
  loss, two = loss_fn(labels, logits, mask), math.log(2)
  found = (loss['per_example'][0, 0], loss['summed'])
  first = math.log(4 / 3)
  np.testing.assert_allclose(found, (first, first + two), rtol=1e-6)
  assert loss['n_valid_examples'] == 2
  assert loss_fn(labels, logits)['n_valid_examples'] == 256
  # s = 0.5: the label becomes 0.5 + 0.5/128; log 4 - 0.50390625 log 3 =
  # 0.832697. The other label's logit is 0: log 2 whatever the label.
  smooth = loss_fn(labels, logits, mask, 0.5)
  np.testing.assert_allclose(smooth['summed'], 0.832697 + two, rtol=1e-6)


def test_average_precision_is_scikit_learns():
  random = np.random.default_rng(1)
  labels = (random.random((60, 7)) < 0.3).astype(np.float32)
  logits = random.normal(size=(60, 7)).astype(np.float32)
  weights = (random.random((60, 7)) < 0.6).astype(np.float32)
  labels[:, 2] = 1.0  # a task without negatives doesn't count
  weights[:, 4] = 0.0  # one without labels neither
  expected = [
    average_precision_score(labels[there, task], logits[there, task])
    for task, there in enumerate(weights.T > 0)
    if task not in (2, 4)
  ]
  found = mean_average_precision(labels, logits, weights)
  assert found == pytest.approx(np.mean(expected), rel=1e-6)


def test_similarity_by_hand():
  """Equal images; even ones, whose variances are 0; one against its negative.

  Even ones of .5 and .1: (.1 + c) / (.26 + c). A board of 0 and 1, of which a
  window has 24 or 25 of 49, against the other: covariance -v.
  """
  board = np.indices((16, 16)).sum(axis=0) % 2.0
  even = np.full((16, 16), 0.5)
  first = np.stack([board, even, board]).astype(np.float32)
  second = np.stack([board, even / 5, 1 - board]).astype(np.float32)
  m, n, c, d = 24 / 49, 25 / 49, 1e-4, 9e-4
  v = m * n * 49 / 48
  other = (2 * m * n + c) * (d - 2 * v) / ((m**2 + n**2 + c) * (2 * v + d))
  found = photos.similarity(first, second)
  expected = [1, (0.1 + c) / (0.26 + c), other]
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_recurrence_by_hand():
  """Ones as inputs and unit weights: h = (1 - z) tanh(1 + r h) + z h."""
  unit, x = speech.GatedRecurrence(1), jnp.ones((1, 3, 1))
  params = flax.core.unfreeze(unit.init(KEY, x))  # frozen in flax 0.6
  ones = jax.tree_util.tree_map(jnp.ones_like, params)
  ones['params']['Dense_0']['bias'] = jnp.zeros(3)
  h, expected = 0.0, []
  for _ in range(3):
    gate = 1 / (1 + math.exp(-1 - h))
    h = (1 - gate) * math.tanh(1 + gate * h) + gate * h
    expected.append(h)
  forward, back = (unit.apply(ones, x, reverse)[0, :, 0] for reverse in (0, 1))
  np.testing.assert_allclose(forward, expected, rtol=1e-5)
  np.testing.assert_allclose(back, expected[::-1], rtol=1e-5)


def test_perplexity_is_that_of_the_mean_loss():
  """Losses ln 2 and ln 8 have the geometric mean 4; the third is padding."""
  outputs = {
    'loss': np.array([[math.log(2), math.log(8), 0]], np.float32),
    'weights': np.array([[1, 1, 0]], np.float32),
  }
  metrics = get_workload('text')._metrics
  expected = {'loss': math.log(4), 'ppl': 4}
  assert metrics(outputs) == pytest.approx(expected, rel=1e-6)
  diverged = {**outputs, 'loss': outputs['loss'] * 1e30}
  assert metrics(diverged)['ppl'] == math.inf


def test_padding_counts_for_no_metric_of_translation():
  words = [p for p in translation.language() if p[0] == '_'][:6]
  # One of six words is wrong, the fifth: of the n-grams 5/6, 3/5, 2/4 and 1/3
  # are right. The lengths agree: no brevity penalty.
  wrong = [*words[:4], words[0], words[5]]
  bleu = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
  for rows in ([words], [words, []]):
    weights = (translation.encode(rows) > 0).astype(np.float32)
    weights[1:] = 0
    outputs = {
      'loss': 2.0 * weights,
      'accuracy': 0.5 * weights,
      'translations': translation.encode([wrong, words][: len(rows)]),
      'targets': translation.encode(rows),
      'weights': weights,
    }
    # A translation ends at its first end marker.
    outputs['translations'][:, -1] = translation.encode([words])[0, 0]
    expected = {'loss': 2.0, 'accuracy': 0.5, 'bleu': bleu}
    found = get_workload('translation')._metrics(outputs)
    assert found == pytest.approx(expected)


# Data.


@pytest.mark.parametrize(
  ('name', 'digest'),
  [
    ('digits', '6949e9b413d0e135'),
    ('molecules', '67fcc1a1021924e2'),
    ('text', '9414370987daca1f'),
    ('translation', 'a22939df043f2f98'),
    ('clicks', '4caf52da48da66b1'),
    ('waves', '0634af2d8459a5d6'),
    ('chains', '370118e0b6c88f2e'),
  ],
)
def test_the_data_are_those_that_the_targets_were_set_with(name, digest):
  """Training batches, and a split with its padding."""
  workload, shape = get_workload(name), (2, 24)
  train = workload._train_batches(np.random.default_rng(0), None, shape)
  size = workload.num_validation_examples
  whole = workload._split_batches('validation', size, None, shape)
  found = hashlib.sha256()
  for batch in (*itertools.islice(train, 3), *whole):
    for leaf in jax.tree_util.tree_leaves(batch):
      found.update(f'{leaf.dtype} {leaf.shape}'.encode() + leaf.tobytes())
  assert found.hexdigest()[:16] == digest


def test_padding_contributes_nothing():
  graphs = graph_batches.load_graphs()[7:10]
  workload, params, _ = ready('molecules')
  logits_fn = _logits_fn(workload)

  def forward(room):
    shard = graph_batches.make_shard(graphs, room)
    logits = logits_fn(params, shard, None)
    loss = workload.loss_fn(shard['targets'], logits, shard['weights'])
    assert shard['inputs'].n_node.sum() == room.nodes + 1
    assert shard['inputs'].n_edge.sum() == room.edges
    assert not shard['weights'][3:].any()
    return logits[:3], loss

  sizes = (sum(len(g[i]) for g in graphs) for i in (0, 1))
  logits, loss = forward(graph_batches.Room(3, *sizes))
  padded_logits, padded_loss = forward(graph_batches.Room(9, 300, 600))
  np.testing.assert_allclose(logits, padded_logits, atol=1e-5)
  np.testing.assert_allclose(loss['summed'], padded_loss['summed'], rtol=1e-5)
  assert loss['n_valid_examples'] == padded_loss['n_valid_examples']


# Input queues.


@NAMES
def test_the_queue_follows_from_the_key_in_both_generations(name):
  queues = [_queue(get_workload(name), seed) for seed in (1, 1, 2)]
  for first, again, other in itertools.islice(zip(*queues), 3):
    assert _equal(first, again)
    assert not _equal(first['inputs'], other['inputs'])
  jit, pmap = (next(_queue(get_workload(name, g))) for g in ('jit', 'pmap'))
  for leaf in jax.tree_util.tree_leaves(pmap):
    assert isinstance(leaf, np.ndarray)
    assert leaf.shape[0] == NUM_DEVICES
  np.testing.assert_array_equal(jit['targets'], np.concatenate(pmap['targets']))
  inputs = jit['inputs']
  if not name.startswith('molecules'):
    np.testing.assert_array_equal(inputs, np.concatenate(pmap['inputs']))
    assert inputs.sharding.shard_shape(inputs.shape)[0] == (
      len(inputs) // NUM_DEVICES
    )
  else:
    assert isinstance(inputs.nodes, np.ndarray)
    last = inputs.senders.reshape(NUM_DEVICES, -1)[-1]
    offset = (NUM_DEVICES - 1) * pmap['inputs'].nodes.shape[1]
    np.testing.assert_array_equal(last - offset, pmap['inputs'].senders[-1])


# The model, in both generations.


def _batch(name, generation):
  return next(_queue(ready(name, generation)[0], size=2 * NUM_DEVICES))


@functools.cache
def _loss_fn(name, generation):
  """Of parameters and a model state: the mean loss, and the new model state.

  That of `_batch`, in training, without dropout.
  """
  workload, _, _ = ready(name, generation)
  batch, pmap = _batch(name, generation), generation == 'pmap'
  if pmap:
    workload.init_model_fn(KEY, dropout_rate=0.0)
  settings = {} if pmap else {'dropout_rate': 0.0}

  def forward(params, batch, model_state, rng):
    mode = spec.ForwardPassMode.TRAIN
    logits, model_state = workload.model_fn(
      params, batch, model_state, mode, rng, True, **settings
    )
    loss = workload.loss_fn(batch['targets'], logits, batch.get('weights'))
    return loss['summed'], loss['n_valid_examples'], model_state

  step = jax.pmap(forward, axis_name='batch') if pmap else jax.jit(forward)
  rng = np.asarray(jax.random.split(KEY, NUM_DEVICES)) if pmap else KEY

  def mean_loss(params, model_state):
    *found, state = step(params, batch, model_state, rng)
    summed, count = jax.device_get(found)
    return float(np.sum(summed) / np.sum(count)), state

  return mean_loss


@NAMES
def test_the_generations_give_the_same_loss(name):
  (jit_loss, jit_state), (pmap_loss, pmap_state) = (
    _loss_fn(name, generation)(*ready(name, generation)[1:])
    for generation in ('jit', 'pmap')
  )
  assert jit_loss == pytest.approx(pmap_loss, rel=1e-5)
  # Synchronised batch statistics: those of the whole batch on every device.
  has_statistics = name in ('digits', 'residual', 'waves')
  assert (jit_state is not None) == (pmap_state is not None) == has_statistics
  for whole, replicas in zip(
    jax.tree_util.tree_leaves(jit_state), jax.tree_util.tree_leaves(pmap_state)
  ):
    for replica in np.asarray(replicas):
      np.testing.assert_allclose(replica, whole, atol=1e-5)


@pytest.mark.parametrize(
  ('name', 'key', 'first'),
  [
    *(('text', 'inputs', 9), ('chains', 'inputs', 9)),
    *(('translation', 'targets', 10), ('translation_glu', 'targets', 10)),
  ],
)
def test_no_position_sees_a_later_one(name, key, first):
  """The token at 9 is seen from there on; in a translation, from the next on."""
  workload, params, _ = ready(name)
  batch, logits_fn = next(_queue(workload)), _logits_fn(workload)
  before, after = (
    logits_fn(params, {**batch, key: batch[key].at[:, 9].set(token)}, None)
    for token in (3, 4)
  )
  change = np.abs(before - after).max(axis=(0, 2))
  assert (change[:first] < 1e-5).all()
  assert (change[first:] > 1e-4).all()


def test_batch_statistics_move_only_when_asked_to():
  workload, params, state = ready('digits')

  @jax.jit
  def states(params, state, batch):
    mode = spec.ForwardPassMode.TRAIN
    return [
      workload.model_fn(params, batch, state, mode, KEY, update)[1]
      for update in (True, False)
    ]

  updated, kept = states(params, state, next(_queue(workload)))
  structure = jax.tree_util.tree_structure
  assert structure(updated) == structure(kept) == structure(state)
  assert _equal(kept, state)
  assert not _equal(updated, state)


def test_dropout_acts_in_training_only():
  """By the mode's name: a submission may import the benchmark's own enum."""
  mode = enum.Enum('ForwardPassMode', ['TRAIN', 'EVAL'])
  batch = {'inputs': jnp.ones((2, 8, 8, 1))}
  jit, params, state = ready('digits', 'jit')
  pmap, _, _ = ready('digits', 'pmap')

  def logits(workload, rng, mode=mode.TRAIN, **settings):
    return _logits_fn(workload, mode, rng, **settings)(params, batch, state)

  plain, dropped = logits(jit, None, mode.EVAL), logits(jit, KEY)
  assert not np.allclose(dropped, plain)
  assert not np.allclose(dropped, logits(jit, jax.random.PRNGKey(1)))
  same = {'rtol': 1e-5}
  np.testing.assert_allclose(logits(jit, KEY, dropout_rate=0.0), plain, **same)
  pmap.init_model_fn(KEY, dropout_rate=0.0)
  np.testing.assert_allclose(logits(pmap, KEY), plain, **same)
  # None is the default rate, which is that of the jit generation.
  pmap.init_model_fn(KEY)
  np.testing.assert_allclose(logits(pmap, KEY), dropped, **same)


@NAMES
def test_a_few_steps_reduce_the_loss(name):
  """That of the batch that they are taken on, of shortened workloads."""
  workload = stand_in.make_workload(name, Condition(), {'tuned': 0.0})
  _share_init(workload, name)
  batch, (_, *first) = _batch(name, 'jit'), ready(name)
  workload._build_input_queue = lambda *unused: itertools.repeat(batch)
  trainer = targets.Trainer(workload, 4, None)
  last = trainer.train(targets.Point(0.01, 0.1, 0.0), 0)[:2]
  everywhere = jax.tree_util.tree_leaves(first)[0].sharding
  last = jax.device_put(last, everywhere)  # for the same program
  before, after = (_loss_fn(name, 'jit')(*model)[0] for model in (first, last))
  assert after < 0.97 * before


# Evaluation.


# The others have no targets at their own length, which evaluations ask for.
@pytest.mark.parametrize('name', ('digits', 'molecules', 'text', 'translation'))
def test_evaluation_repeats_and_compiles_once(name, compilations, monkeypatch):
  """Of splits that end amid their second batch."""
  found = []
  for generation in ('jit', 'pmap'):
    workload, params, state = ready(name, generation)
    for split in ('eval_train', 'validation', 'test'):
      monkeypatch.setattr(workload, f'num_{split}_examples', 3 * NUM_DEVICES)
    monkeypatch.setattr(workload, 'eval_batch_size', 2 * NUM_DEVICES)
    first = _evaluate(workload, params, state)
    assert first['validation/num_examples'] == workload.num_validation_examples
    assert first['test/num_examples'] == workload.num_test_examples
    diverged = jax.tree_util.tree_map(lambda x: x * math.nan, params)
    with compilations() as compiled:
      fresh, _ = workload.init_model_fn(jax.random.PRNGKey(1))
      result = _evaluate(workload, diverged, state)
      assert _evaluate(workload, params, state) == first
    assert not compiled
    assert not _equal(fresh, params)
    assert math.isnan(result['validation/loss'])
    assert not workload.has_reached_validation_target(result)
    found.append(first)
  keys = {'loss', workload.target_metric_name}
  for split in ('train', 'validation', 'test'):
    assert {f'{split}/{k}' for k in keys} <= set(first)
  assert 'train/num_examples' not in first
  assert all(
    type(v) is float for k, v in first.items() if 'num_examples' not in k
  )
  assert found[0] == pytest.approx(found[1], rel=1e-4)

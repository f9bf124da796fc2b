"""What the parameters of the real benchmark's models are, in either generation.

The forms are written down from the code of the models: a Dense is (in, out), a
Conv (height, width, in, out), attention's query, key and value are (d, heads, d of a
head) and its out is (heads, d of a head, d). A layer with one output is a vector.
"""

import re

import jax
import pytest

import real_benchmark
from real_benchmark import import_benchmark, is_current
from reset_cycles.core import forms as forms_lib
from reset_cycles.core.forms import DEPTHWISE, TABLE, VECTOR, Source, matrix
from reset_cycles.core.workload import (
  traced_forms,
  types_of,
  without_replication,
)

pytestmark = real_benchmark.MARKS

DENSE = matrix([0], [1])
CONV = matrix([0, 1, 2], [3])
ATTENTION = {
  r'/(query|key|value)/kernel$': matrix([0], [1, 2]),
  r'/out/kernel$': matrix([0, 1], [2]),
}
RESNET = {r'(^|/)Conv_[^/]*/kernel$': CONV, '^Dense_0/kernel$': DENSE}
CRITEO = {
  '^embedding_table$': TABLE,
  '^Dense_[0-6]/kernel$': DENSE,
  '^Dense_7/kernel$': VECTOR,  # one output: whether the advertisement is clicked
}
UNET = {
  r'ConvBlock_\d/Conv_\d/kernel$': CONV,
  r'TransposeConvBlock_\d/ConvTranspose_0/kernel$': CONV,
  '^Conv_0/kernel$': VECTOR,  # 1 x 1, to one channel: the picture
}
VIT = {
  '^conv_patch_extract/kernel$': CONV,
  r'MlpBlock_\d/Dense_\d/kernel$': DENSE,
  '^(pre_logits|head)/kernel$': DENSE,
  **ATTENTION,
}
SUBSAMPLE = {
  r'^Subsample_0/Conv2dSubsampling_\d/kernel$': CONV,
  '^Subsample_0/Dense_0/kernel$': DENSE,
  '^Dense_0/kernel$': DENSE,
}
GNN = {
  r'^Dense_\d+/kernel$': DENSE,
  # Named so, but they are layers on what the graph's nodes and edges have.
  '^(node|edge)_embedding/kernel$': DENSE,
}
# A pattern of paths -> their form; besides these there are biases and scales.
MODELS = {
  'cifar': RESNET,
  'criteo1tb': CRITEO,
  'criteo1tb_layernorm': CRITEO,
  'criteo1tb_resnet': CRITEO,
  'fastmri': UNET,
  'fastmri_layernorm': UNET,
  'imagenet_resnet': RESNET,
  'imagenet_vit': VIT,
  'imagenet_vit_glu': VIT,
  'imagenet_vit_map': {**VIT, '^MAPHead_0/probe$': VECTOR},  # a learnt query
  'librispeech_conformer': {
    **SUBSAMPLE,
    r'FeedForwardModule_\d/Dense_\d/kernel$': DENSE,
    r'ConvolutionBlock_0/Dense_\d/kernel$': DENSE,
    # (width, 1, channels), in as many groups as there are channels.
    r'ConvolutionBlock_0/Conv_0/kernel$': DEPTHWISE,
    **ATTENTION,
  },
  'librispeech_deepspeech': {
    **SUBSAMPLE,
    r'^FeedForwardModule_\d/Dense_0/kernel$': DENSE,
  },
  'mnist': {r'^Dense_\d/kernel$': DENSE},
  'ogbg': GNN,
  'ogbg_model_size': GNN,
  'wmt': {
    '^shared_embedding/embedding$': TABLE,  # it also makes the logits
    r'MlpBlock_0/Dense_\d/kernel$': DENSE,
    **ATTENTION,
  },
  'wmt_glu_tanh': {
    '^shared_embedding/embedding$': TABLE,
    r'MlpBlock_0/Dense_\d/kernel$': DENSE,
    **ATTENTION,
  },
}
# DeepSpeech's LSTM is one vector of all kernels and biases in the older
# generation, and stays it. In the current one its kernels are (in, out).
LSTM = {
  False: {'/CudnnLSTM_0/weights$': VECTOR},
  True: {r'/cell/[ih][ifgo]/kernel$': DENSE},
}
# What the benchmark's types do not say.
NOT_BY_TYPE = {
  'librispeech_conformer': r'ConvolutionBlock_0/Conv_0/kernel$',
  'ogbg': '_embedding/kernel$',
  'ogbg_model_size': '_embedding/kernel$',
}


def workload_of(name):
  registry = import_benchmark('workloads.workloads')
  meta = registry.WORKLOADS[name]
  path = registry.BASE_WORKLOADS_DIR + meta['workload_path']
  cls = registry.import_workload(
    f'{path}_jax/workload.py', meta['workload_class_name'], return_class=True
  )
  return cls(**meta.get('workload_init_kwargs', {}))


def by_hand(name):
  patterns = MODELS[name]
  if name == 'librispeech_deepspeech':
    patterns = {**patterns, **LSTM[is_current()]}
  return {**patterns, '(^|/)(bias|scale)$': VECTOR}


@pytest.mark.parametrize('name', MODELS)
def test_forms_of_the_models(name):
  workload, key = workload_of(name), jax.random.PRNGKey(0)
  with jax.numpy_rank_promotion('allow'):
    # It has its shapes and types after this; nothing is run here.
    with without_replication():
      jax.eval_shape(lambda key: workload.init_model_fn(key)[0], key)
    trace = traced_forms(workload, key)
  params = jax.tree_util.tree_map(
    lambda shape: jax.ShapeDtypeStruct(shape.shape_tuple, 'float32'),
    workload.param_shapes,
  )
  paths = [
    '/'.join(str(key.key) for key in path)
    for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
  ]

  patterns, expected = by_hand(name), {}
  uses = dict.fromkeys(patterns, 0)
  for path in paths:
    [pattern] = [p for p in patterns if re.search(p, path)]
    expected[path] = patterns[pattern]
    uses[pattern] += 1
  assert all(uses.values()), uses

  types = types_of(workload, params)
  answers = forms_lib.forms(params, trace=trace, types=types)
  assert dict(zip(paths, [a.form for a in answers])) == expected
  assert {a.source for a in answers} == {Source.TRACE}

  # Without the trace the types say the same, but for these.
  untraced = forms_lib.forms(params, types=types)
  assert {a.source for a in untraced} == {Source.TYPES}
  others = {p for p, a in zip(paths, untraced) if a.form != expected[p]}
  pattern = NOT_BY_TYPE.get(name, '$^')
  assert others == {path for path in paths if re.search(pattern, path)}

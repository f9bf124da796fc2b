"""Shapes and roles of parameters, read from a flax parameter tree."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from ..spec import ParameterContainer, ParameterType, ShapeTuple

_NORM_TYPES = {
  ('batchnorm', 'scale'): ParameterType.BATCH_NORM_SCALE,
  ('batchnorm', 'bias'): ParameterType.BATCH_NORM_BIAS,
  ('layernorm', 'scale'): ParameterType.LAYER_NORM_SCALE,
  ('layernorm', 'bias'): ParameterType.LAYER_NORM_BIAS,
}

# The projections of `transformer.Attention`, which have no bias.
_ATTENTION_TYPES = {
  'query': ParameterType.ATTENTION_Q,
  'key': ParameterType.ATTENTION_K,
  'value': ParameterType.ATTENTION_V,
  'out': ParameterType.ATTENTION_OUT,
}


def param_shapes(params: ParameterContainer) -> ParameterContainer:
  """The tree of `ShapeTuple` that belongs to a tree of arrays."""
  return jax.tree_util.tree_map(lambda x: ShapeTuple(x.shape), params)


def _leaf_type(module: str, name: str) -> ParameterType:
  for (norm, leaf), kind in _NORM_TYPES.items():
    if norm in module and leaf == name:
      return kind
  if module in _ATTENTION_TYPES:
    return _ATTENTION_TYPES[module]
  if name == 'bias':
    return ParameterType.BIAS
  if 'embedding' in module:
    return ParameterType.EMBEDDING
  return ParameterType.CONV_WEIGHT if 'conv' in module else ParameterType.WEIGHT


def param_types(params: Mapping, module: str = '') -> dict:
  """The tree of `ParameterType`, told by flax's module and leaf names.

  Args:
    params: nested mappings of arrays.
    module: lower-case name of the module that `params` belongs to.

  Returns:
    Nested dicts with lower-case keys, as the benchmark has them.
  """
  types = {}
  for key, value in params.items():
    name = key.lower()
    if isinstance(value, Mapping):
      types[name] = param_types(value, name)
    else:
      types[name] = _leaf_type(module, name)
  return types

"""Trees of arrays on the host, compared leaf by leaf."""

import functools

import jax
import numpy as np


def host(tree):
  """The tree as NumPy arrays, random keys as what they consist of."""

  def numbers(leaf):
    # By name: the oldest stack's jax does not know the type.
    is_key = str(getattr(leaf, 'dtype', '')).startswith('key<')
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

  return jax.tree_util.tree_map(numbers, tree)


def assert_same(a, b):
  jax.tree_util.tree_map(np.testing.assert_array_equal, host(a), host(b))


def assert_close(a, b, rtol=1e-5, atol=1e-7):
  close = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
  jax.tree_util.tree_map(close, host(a), host(b))

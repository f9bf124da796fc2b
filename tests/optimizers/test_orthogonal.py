"""Which arrays are matrices, and Newton-Schulz beside its twin and the SVD."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import reference
from reset_cycles.core.forms import matrix
from reset_cycles.optimizers import orthogonal


def test_arrays_go_through_in_stacks_of_one_shape():
  """Each member by itself, back where it was; two sides, so two stacks."""
  rng = np.random.default_rng(3)
  arrays = [
    rng.normal(size=shape) for shape in ((2, 3), (4, 2, 3), (3, 2), (5, 3))
  ]
  forms = [
    matrix((0,), (1,)),
    matrix((1,), (2,), stacked=(0,)),
    matrix((1,), (0,)),  # stored (out, in)
    matrix((0,), (1,)),
  ]
  seen = []

  def numbered(stack):
    seen.append(stack.shape)
    return stack + jnp.arange(len(stack))[:, None, None]

  results = orthogonal.by_stacks(
    numbered, list(map(jnp.asarray, arrays)), forms
  )
  assert seen == [(6, 2, 3), (1, 5, 3)]
  members = np.arange(1, 5)[:, None, None]
  added = (0, members, 5, 0)
  for result, array, number in zip(results, arrays, added):
    np.testing.assert_allclose(result, array + number, rtol=1e-6)


@pytest.mark.parametrize('shape', ((5, 5), (6, 8), (4, 9), (9, 4), (4, 90)))
def test_singular_values_come_near_one(shape):
  """U and V stay; what was .05 to 1 of the largest is .67 to 1.21."""
  rng = np.random.default_rng(0)
  u, _, vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
  values = np.geomspace(1.0, 0.05, len(vt))
  stack = np.float32([(u * values) @ vt, (u * values[::-1]) @ vt])
  for found, given in zip(np.asarray(orthogonal.orthogonalised(stack)), stack):
    inner = u.T @ found @ vt.T
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-4)
    assert 0.67 < np.diag(inner).min() and np.diag(inner).max() < 1.21
    np.testing.assert_allclose(
      found, reference.orthogonalised(given), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize('shape', ((20, 20), (20, 60), (60, 20)))
def test_singular_values_near_0_stay_where_the_formula_has_them(shape):
  """They are squared, and small squares are lost beside large ones."""
  rng = np.random.default_rng(0)
  u, _, vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
  for least in (1e-3, 1e-5, 0.0):
    values = np.geomspace(1.0, 1e-5, len(vt)) * (np.arange(len(vt)) < 10)
    values[-1] = least
    given = np.float32((u * values) @ vt)
    (found,) = np.asarray(orthogonal.orthogonalised(given[None]))
    difference = found - reference.orthogonalised(given)
    assert np.linalg.norm(difference, 2) < 0.01


def rounded(fn, mantissa_bits):
  """fn, with the factors of its products rounded to so many bits."""

  def run(x):
    jaxpr, known = jax.make_jaxpr(fn)(x).jaxpr, {}
    read = lambda v: v.val if hasattr(v, 'val') else known[v]
    known.update(zip(jaxpr.invars, [x]))
    for eqn in jaxpr.eqns:
      given = [read(v) for v in eqn.invars]
      if eqn.primitive.name == 'dot_general':
        given = [jax.lax.reduce_precision(g, 8, mantissa_bits) for g in given]
      made = eqn.primitive.bind(*given, **eqn.params)
      made = made if eqn.primitive.multiple_results else [made]
      known.update(zip(eqn.outvars, made))
    return read(jaxpr.outvars[0])

  return run


@pytest.mark.parametrize(
  ('bits', 'within'),
  ((10, 0.05), (7, 0.4)),
  ids=('TensorFloat-32', 'bfloat16'),
)
@pytest.mark.parametrize('rank', (3, 64))
def test_products_that_are_rounded_leave_it_bounded(bits, within, rank):
  """Of oblong matrices, by the spectral norm; the result's is about 1."""
  rng = np.random.default_rng(0)
  values = np.geomspace(1.0, 1e-5, rank)
  left, right = rng.normal(size=(64, rank)), rng.normal(size=(rank, 192))
  given = np.float32((left * values) @ right)
  (found,) = np.asarray(rounded(orthogonal.orthogonalised, bits)(given[None]))
  difference = found - reference.orthogonalised(given)
  assert np.linalg.norm(difference, 2) < within
  assert np.linalg.norm(found, 2) < 1.22


def test_no_matrix_gives_a_step_that_is_not_finite():
  rng = np.random.default_rng(0)
  one = rng.normal(size=(4, 6)).astype(np.float32)
  broken = one.copy()
  broken[1, 2] = np.nan
  infinite = one.copy()
  infinite[0, 0] = -np.inf
  scales = np.float32([1, 1e30, 1e-30, 1e-38, 0])[:, None, None]
  found = np.asarray(
    orthogonal.orthogonalised(np.stack([*(scales * one), broken, infinite]))
  )
  assert np.isfinite(found).all()
  np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(found[2], found[0], rtol=1e-4, atol=1e-5)
  assert not found[4:].any()

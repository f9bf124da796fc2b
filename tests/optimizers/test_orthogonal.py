"""Which arrays are matrices, and Newton-Schulz beside its twin and the SVD."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import reference
from reset_cycles.optimizers import orthogonal

pytestmark = pytest.mark.usefixtures('compiled_quickly')


@pytest.mark.parametrize(
  ('shape', 'sides'),
  (
    ((6, 4), (6, 4)),
    ((64, 8, 8), (64, 64)),  # of attention: query, key, value
    ((8, 8, 64), (64, 64)),  # and out
    ((3, 3, 16, 32), (144, 32)),  # a convolution
    ((7, 7, 3, 64), (147, 64)),
    ((9, 1, 4), (9, 4)),
  ),
)
def test_how_axes_are_split(shape, sides):
  assert orthogonal.split_of(shape) == sides


@pytest.mark.parametrize(
  ('shape', 'expected'),
  (
    ((), False),
    ((8,), False),
    ((8, 1), False),
    ((1, 1, 8), False),
    ((2, 2), True),
    ((65_536, 2), True),
    ((65_537, 2), False),
    ((4_194_304, 128), False),  # criteo1tb's table
  ),
)
def test_what_can_be_a_matrix(shape, expected):
  assert orthogonal.is_matrix(shape) is expected


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


def test_matrices_of_one_shape_are_one_stack():
  shapes = ((2, 3), (3, 2), (2, 3), (6, 2, 3), (2, 3, 6), (6, 6))
  rng = np.random.default_rng(0)
  given = [jnp.asarray(rng.normal(size=s), jnp.float32) for s in shapes]
  seen = []

  def fn(stack):
    seen.append(stack.shape)
    return 2 * stack

  found = orthogonal.by_stacks(fn, given)
  assert seen == [(2, 2, 3), (1, 3, 2), (3, 6, 6)]
  for after, before in zip(found, given):
    np.testing.assert_array_equal(after, 2 * before)

"""What outputs are made of: every kind of equation, against what was written."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.any_optax import dependence
from reset_cycles.any_optax.dependence import Origin, origins

SHAPE = jax.ShapeDtypeStruct((3,), jnp.float32)
FLAG = jax.ShapeDtypeStruct((), jnp.bool_)
COUNT = jax.ShapeDtypeStruct((), jnp.int32)


def of(fn, *args):
  """The origins as (reached, values), sets of the numbers of inputs."""
  found, _ = origins(fn, *args)
  numbers = lambda bits: {i for i in range(9) if bits >> i & 1}
  return [(numbers(o.reached), numbers(o.values)) for o in found]


def loop(goes, x, y):
  body = lambda carry: (carry[0] + 1, carry[2], carry[1])
  return jax.lax.while_loop(lambda c: c[0] < goes, body, (0, x, y))[1:]


def scanned(x, rows):
  return jax.lax.scan(lambda carry, row: (carry * 2, row + 1), x, rows)


@jax.custom_jvp
def own(x, y):
  return x * 2


own.defjvp(lambda x, g: (own(*x), g[0] * 2))


@jax.custom_vjp
def other(x, y):
  return x * 2


other.defvjp(lambda x, y: (x, y), lambda _, g: (g, g))


@pytest.mark.parametrize(
  ('fn', 'args', 'expected'),
  [
    (
      lambda x, y: (x * 2, jnp.ones(2)),
      (SHAPE, SHAPE),
      [({0}, {0}), (set(),) * 2],
    ),
    (lambda x, y: x @ y, (SHAPE, SHAPE), [({0, 1}, {0, 1})]),
    (
      lambda f, x, y: jnp.where(f, x, y),
      (FLAG, SHAPE, SHAPE),
      [({0, 1, 2}, {0, 1, 2})],
    ),
    (lambda x: jnp.where(jnp.isnan(x), 0.0, 1.0), (SHAPE,), [({0}, {0})]),
    # Whether something is added, or left, says nothing of what it is.
    (
      lambda f, x, y: jnp.where(f, y * 2, x),
      (FLAG, SHAPE, SHAPE),
      [({0, 1, 2}, {1, 2})],
    ),
    (
      lambda f, x, y: jnp.where(f, x * 2, x),
      (FLAG, SHAPE, SHAPE),
      [({0, 1}, {0, 1})],
    ),
    (
      lambda f, x, y: jnp.where(f, x + y, x),
      (FLAG, SHAPE, SHAPE),
      [({0, 1, 2}, {1, 2})],
    ),
    (
      lambda f, x, y: jax.lax.cond(f, lambda a, b: a, lambda a, b: a + 1, x, y),
      (FLAG, SHAPE, SHAPE),
      [({0, 1}, {1})],
    ),
    (
      lambda x, y: jax.jit(lambda a, b: (b, a))(x, y),
      (SHAPE, SHAPE),
      [({1}, {1}), ({0}, {0})],
    ),
    (
      lambda x, y: jax.checkpoint(lambda a, b: jnp.sin(b))(x, y),
      (SHAPE, SHAPE),
      [({1}, {1})],
    ),
    # It swaps: each may be either. How often depends on the first input.
    (loop, (COUNT, SHAPE, SHAPE), [({0, 1, 2}, {0, 1, 2})] * 2),
    (
      scanned,
      (SHAPE, jax.ShapeDtypeStruct((4, 2), jnp.float32)),
      [({0}, {0}), ({1}, {1})],
    ),
    (own, (SHAPE, SHAPE), [({0}, {0})]),
    (other, (SHAPE, SHAPE), [({0}, {0})]),
    (
      lambda x, y: jax.grad(lambda a: jnp.sum(a * y))(x),
      (SHAPE, SHAPE),
      [({1}, {1})],
    ),
    (lambda x, i: x[i], (SHAPE, COUNT), [({0, 1}, {0, 1})]),
  ],
  ids=(
    'constant matmul where nan left doubled added cond jit remat while scan jvp vjp grad index'
  ).split(),
)
def test_what_reaches_an_output(fn, args, expected):
  assert of(fn, *args) == expected


@pytest.mark.parametrize('seed', range(20))
def test_no_flow_is_missed(seed):
  """Random functions of 4 numbers: what has a slope has an origin."""
  rng = np.random.default_rng(seed)
  two = (
    jnp.add,
    jnp.multiply,
    jnp.maximum,
    lambda a, b: jnp.where(a > 0, a, b),
  )
  one = (jnp.tanh, jax.jit(jnp.sin), lambda a: jax.lax.fori_loop(0, 2, step, a))
  step = lambda i, a: a * 0.5 + i

  picks = [(rng.integers(2), *rng.integers(0, 99, 3)) for _ in range(12)]

  def fn(*inputs):
    values = list(inputs)
    for is_one, kind, i, j in picks:
      a, b = values[i % len(values)], values[j % len(values)]
      new = one[kind % 3](a) if is_one else two[kind % 4](a, b)
      values.append(new)
    return values[-4:]

  at = jnp.asarray(rng.normal(size=4))
  slopes = np.stack(jax.jacobian(lambda x: jnp.stack(fn(*x)))(at))
  for row, (reached, values) in zip(slopes, of(fn, *at)):
    assert set(np.flatnonzero(row)) <= values <= reached


@pytest.mark.parametrize(
  ('fn', 'base', 'is_sum'),
  [
    (lambda x, y: x, 0, False),
    (lambda x, y: x.astype(jnp.bfloat16).astype(jnp.float32), 0, False),
    (lambda x, y: x + y**2, 0, True),
    (lambda x, y: y**2 + x, 0, True),
    (lambda x, y: x - y, 0, True),
    (lambda x, y: jnp.where(jnp.sum(y) > 0, x + y, x), 0, True),
    (lambda x, y: jax.jit(jnp.add)(x, y + 1), 0, True),
    (lambda x, y: jnp.where(x < 9, x + 1, 9.0), 0, True),
    (lambda x, y: jnp.where(y < 9, x + 1, 9.0), None, False),
    (lambda x, y: jnp.maximum(x, y), None, False),
    (lambda x, y: 0.9 * x + 2 * y, None, False),
    (lambda x, y: x + x, None, False),
    (lambda x, y: jnp.where(y > 0, x, y), None, False),
    (lambda x, y: jnp.sum(x), None, False),
  ],
)
def test_what_is_a_sum(fn, base, is_sum):
  [[found], _] = origins(fn, SHAPE, SHAPE)
  assert (found.base, found.is_sum and found.base is not None) == (base, is_sum)


def test_where_the_arguments_are():
  """Leaf 1 of the second argument is input 2, of three."""
  [output], arguments = origins(
    lambda a, b: b['y'] * 2, SHAPE, {'x': SHAPE, 'y': SHAPE}
  )
  assert arguments == [(0, 1), (1, 2)]
  assert [argument.of(output.values) for argument in arguments] == [0, 0b10]
  assert output == Origin(0b100, 0b100)


def test_the_example_holds():
  assert doctest.testmod(dependence) == (0, 4)

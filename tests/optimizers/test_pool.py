"""One state for several inner optimizers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.inner import InnerHparams
from reset_cycles.optimizers.nesterov import Nesterov
from reset_cycles.optimizers.pool import Untouched, pooled

NUMBERS = InnerHparams(0.25, 0.5, 1e-8, 2.0)
PARAMS = {'a': jnp.float32([1.0, 2.0]), 'b': jnp.ones((2, 3), jnp.bfloat16)}
GRADS = jax.tree_util.tree_map(lambda p: p / 2, PARAMS)
NAMES = ('adamw', 'nesterov', 'schedule_free_adamw', 'ademamix', 'nadamw')


def kinds(pool):
  leaves = jax.tree_util.tree_leaves(pool)
  return [(x.shape, x.dtype.name) for x in leaves]


def test_one_optimizer_has_no_pool():
  assert pooled([AdamW()], PARAMS) == (AdamW(),)


def test_the_pool_is_as_large_as_the_optimizer_that_needs_most():
  both = pooled([AdamW(), Nesterov()], PARAMS)
  trees = [((2,), 'float32'), ((2, 3), 'bfloat16')]
  expected = [((), 'int32'), *trees, *trees]  # count, mu, nu
  for inner in both:
    assert kinds(inner.build(NUMBERS, 0.1, 0.1).init(PARAMS)) == expected
  # Schedule-Free adds three numbers, AdEMAMix a third tree.
  pool = pooled([INNER.make(name) for name in NAMES], PARAMS)[0]
  found = kinds(pool.build(NUMBERS, 0.1, 0.1).init(PARAMS))
  numbers = [((), 'int32'), *[((), 'float32')] * 3]
  assert sorted(found) == sorted(numbers + 3 * trees)


def test_a_leafs_path_ends_with_that_of_its_parameter():
  """In the order in which optimizers need them, whatever they mix them with."""
  # Of the same shape as 'a': only the path tells them apart.
  params = {**PARAMS, 'c': jnp.zeros(2)}
  names = ('nesterov', 'schedule_free_adamw', 'adamw')
  for inner in pooled([INNER.make(name) for name in names], params):
    pool = inner.build(NUMBERS, 0.1, 0.1).init(params)
    found = [
      jax.tree_util.keystr(path)
      for path, leaf in jax.tree_util.tree_flatten_with_path(pool)[0]
      if leaf.shape
    ]
    assert [path[-5:] for path in found] == ["['a']", "['b']", "['c']"] * 2


@pytest.mark.parametrize('i', range(len(NAMES)))
def test_it_steps_as_the_optimizer_does_by_itself(i):
  own = INNER.make(NAMES[i])
  inner = pooled([INNER.make(name) for name in NAMES], PARAMS)[i]
  alone, shared = (x.build(NUMBERS, 0.1, 0.1) for x in (own, inner))
  state, pool = alone.init(PARAMS), shared.init(PARAMS)
  for _ in range(3):
    wanted, state = alone.update(GRADS, state, PARAMS)
    found, pool = shared.update(GRADS, pool, PARAMS)
    jax.tree_util.tree_map(np.testing.assert_array_equal, found, wanted)
  pairs = (
    (inner.slots(pool), own.slots(state)),
    (inner.eval_params(pool, PARAMS), own.eval_params(state, PARAMS)),
  )
  for found, wanted in pairs:
    jax.tree_util.tree_map(np.testing.assert_array_equal, found, wanted)
  halved = jax.tree_util.tree_map(lambda x: x / 2, inner.slots(pool))
  new = inner.slots(inner.with_slots(pool, halved))
  jax.tree_util.tree_map(np.testing.assert_array_equal, new, halved)


def test_what_an_optimizer_has_no_use_for_stays():
  adamw, nesterov = pooled([AdamW(), Nesterov()], PARAMS)
  _, pool = adamw.build(NUMBERS, 0.1, 0.1).update(
    GRADS, adamw.build(NUMBERS, 0.1, 0.1).init(PARAMS), PARAMS
  )
  _, after = nesterov.build(NUMBERS, 0.1, 0.1).update(GRADS, pool, PARAMS)
  # The count and the second moment, but not the first one.
  leaves = zip(*map(jax.tree_util.tree_leaves, (pool, after)))
  assert [a is b for a, b in leaves] == [True, False, False, True, True]


def test_an_optimizer_begins_from_the_parameters_and_from_nothing():
  free, _ = pooled([INNER.make('schedule_free_adamw'), AdamW()], PARAMS)
  built = free.build(NUMBERS, 0.1, 0.1)
  _, used = built.update(GRADS, built.init(PARAMS), PARAMS)
  pool, params = free.begin((used, GRADS))
  assert params is GRADS
  slots = free.slots(pool)
  jax.tree_util.tree_map(
    np.testing.assert_array_equal, slots.iterates, (GRADS,)
  )
  rest = jax.tree_util.tree_leaves(slots._replace(iterates=()))
  assert not any(np.any(leaf) for leaf in rest)


def test_a_reset_sees_nothing_of_what_ends():
  assert jax.tree_util.tree_leaves(Untouched().slots(PARAMS)) == []
  assert Untouched().with_slots(PARAMS, Untouched().slots(PARAMS)) is PARAMS

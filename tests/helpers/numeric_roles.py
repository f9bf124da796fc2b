"""A slow twin of `any_optax.roles`: an optimizer is run, and looked at from outside.

Nothing is known of its code. What its state is made of is seen from what changes
when parameters, gradients, the rate or the state itself are changed.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from helpers.trees import host
from reset_cycles.optimizers.roles import COUNT, ITERATE, KEPT, MOMENT
from reset_cycles.optimizers.step import Step

STEPS = 12  # Sophia looks at every tenth
LINE_SEARCH = ('value', 'grad', 'value_fn')
# What an update may be told besides: in turn, until one fits.
ASKED = ((), LINE_SEARCH, ('obj_fn',), (*LINE_SEARCH, 'obj_fn'))


def flat(tree):
  return jax.tree_util.tree_leaves(host(tree))


def differ(one, other):
  """For each leaf, whether its numbers are others."""
  return [not np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other)]


def any_of(rows):
  return [any(column) for column in zip(*rows)]


def like(tree, seed, scale=1.0):
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  rng = np.random.default_rng(seed)
  drawn = [scale * rng.normal(size=leaf.shape) for leaf in leaves]
  return treedef.unflatten(
    jnp.asarray(new, leaf.dtype) for new, leaf in zip(drawn, leaves)
  )


def shapes_within(shape):
  """What is left of a shape if axes are left out, or are 1 long."""
  ways = itertools.product(*[[(n,), (1,), ()] for n in shape])
  return {sum(way, ()) for way in ways}


class Twin:
  """What an optimizer does, from outside.

  Args:
    build: a Step -> the transformation.
    params: tree of arrays.
  """

  def __init__(self, build, params):
    self.build = build
    self.fast = getattr(params, 'fast', params)
    self.pairs = params is not self.fast
    self.shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(self.fast)]
    self.one, self.other = (self.paired(like(self.fast, s)) for s in (1, 2))
    self.init = jax.jit(build(Step(jnp.float32(0.1))).init)
    self.update = jax.jit(self._update_of(self._asked()))

  def _asked(self):
    args = self.fast, self.init(self.one), self.one, jnp.float32(0.1)
    for names in ASKED:
      try:
        jax.eval_shape(self._update_of(names), *args)
        return names
      except (TypeError, ValueError):
        continue
    raise ValueError('its update asks for something else')

  def paired(self, fast):
    synced = optax.LookaheadParams.init_synced if self.pairs else lambda x: x
    return synced(fast)

  def _update_of(self, names):
    def loss(params, **_):
      return sum(jnp.sum(x**4) for x in jax.tree_util.tree_leaves(params))

    def update(grads, state, params, rate):
      value = sum(jnp.sum(g) for g in jax.tree_util.tree_leaves(grads))
      told = {'value': value, 'grad': grads, 'value_fn': loss, 'obj_fn': loss}
      own = self.build(Step(rate))
      more = {name: told[name] for name in names}
      return own.update(grads, state, params, **more)

    return update

  def states(self, seed, rate=0.1, only=None, params=None):
    """The leaves of the state after each step.

    Args:
      seed: of the gradients.
      rate: of the steps.
      only: the number of the one gradient that depends on the seed; None: all.
      params: at which they are taken; None: they follow the updates.
    """
    at, state, found = params or self.one, self.init(self.one), []
    for step in range(STEPS):
      grads = like(self.fast, seed + step, 10.0 ** (step % 4 - 1))
      if only is not None:
        leaves, treedef = jax.tree_util.tree_flatten(like(self.fast, step))
        leaves[only] = jax.tree_util.tree_leaves(grads)[only]
        grads = treedef.unflatten(leaves)
      updates, state = self.update(grads, state, at, rate)
      if params is None:
        at = optax.apply_updates(at, updates)
      found.append(flat(state))
    return found

  def moved(self, i):
    """The numbers of the parameters whose updates leaf i of the state changes."""
    grads, found = like(self.fast, 3), set()
    for shift in (-0.3, 0.3, 3.0):
      runs = []
      for delta in (0, shift):
        updates, state = None, self.init(self.one)
        for _ in range(STEPS):
          leaves, treedef = jax.tree_util.tree_flatten(state)
          leaves[i] = leaves[i] + jnp.asarray(delta, leaves[i].dtype)
          shifted = treedef.unflatten(leaves)
          updates, state = self.update(grads, shifted, self.one, 0.1)
          runs.append(flat(getattr(updates, 'fast', updates)))
      half = len(runs) // 2
      for a, b in zip(runs[:half], runs[half:]):
        found |= {j for j, is_other in enumerate(differ(a, b)) if is_other}
    return found

  def is_sum(self, i):
    """Whether a step adds to leaf i what does not depend on it."""
    state = self.init(self.one)
    grads = like(self.fast, 3)
    for shift in (0.5, 8.0, 64.0):
      ends = []
      for delta in (0.0, shift):
        leaves, treedef = jax.tree_util.tree_flatten(state)
        leaves[i] = leaves[i] + delta
        shifted = treedef.unflatten(leaves)
        ends.append(flat(self.update(grads, shifted, self.one, 0.1)[1])[i])
      if abs(ends[1] - ends[0] - shift) > 1e-3:
        return False
    return True

  def allowed(self):
    """For each leaf of the state, the roles that it may have."""
    first, second = (self.init(p) for p in (self.one, self.other))
    begun = flat(first)
    begins = differ(begun, flat(second))
    runs = [self.states(seed) for seed in (10, 20, 30)]
    takes_in = any_of(
      differ(a, b) for run in runs[1:] for a, b in zip(runs[0], run)
    )
    slower = self.states(10, rate=0.01)
    rated = any_of(differ(a, b) for a, b in zip(runs[0], slower))
    sizes = [math.prod(shape) for shape in self.shapes]
    groups = itertools.product(*[(0, size) for size in sizes])
    whole = {*self.shapes, *((sum(group),) for group in groups)}
    parts = set().union(*map(shapes_within, whole)) - {()}
    is_real = [bool(jnp.issubdtype(x.dtype, jnp.inexact)) for x in begun]
    is_iterate = [
      own and real and leaf.shape in whole
      for own, real, leaf in zip(begins, is_real, begun)
    ]
    found = []
    for i, leaf in enumerate(begun):
      if is_iterate[i]:
        found.append({ITERATE})
      elif begins[i]:
        found.append({COUNT})
      elif takes_in[i] and is_real[i]:
        shaped = {MOMENT} if leaf.shape in parts else {COUNT}
        # The least norm may be that of one parameter, as far as can be seen.
        is_one = not leaf.shape and self.belongs_to_one(i)
        found.append({MOMENT, COUNT} if is_one else shaped)
      elif is_real[i] and not leaf.shape and rated[i] and self.is_sum(i):
        found.append({ITERATE} if any(is_iterate) else {COUNT, KEPT})
      else:
        found.append({COUNT, KEPT})
    return found

  def belongs_to_one(self, i):
    """Whether a number takes in, or moves, one parameter of several."""
    numbers = range(len(self.shapes))
    base = [self.states(10, only=j, params=self.one) for j in numbers]
    other = [self.states(20, only=j, params=self.one) for j in numbers]
    taken = [
      any(differ(a, b)[i] for a, b in zip(base[j], other[j])) for j in numbers
    ]
    return len(numbers) > 1 and (sum(taken) == 1 or len(self.moved(i)) == 1)

"""Transformations that hypothesis makes up: any parts, containers, wrappers."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from hypothesis import strategies as st

map_ = jax.tree_util.tree_map


def norm_of(tree):
  return jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree_util.tree_leaves(tree)))


class Part(NamedTuple):
  """One thing that a transformation keeps."""

  init: Any  # parameters -> state
  update: Any  # (gradients, state, parameters) -> gradients, state


def momentum(g, m, p):
  m = map_(lambda m, g: 0.9 * m + g, m, g)
  return m, m


def unbiased(g, state, p):
  count, m = state[0] + 1, map_(lambda m, g: 0.9 * m + 0.1 * g, state[1], g)
  return map_(lambda m: m / (1 - 0.9**count), m), (count, m)


def scaled(g, v, p):
  v = map_(lambda v, g: 0.9 * v + g**2, v, g)
  return map_(lambda g, v: g / (jnp.sqrt(v) + 1e-3), g, v), v


def layerwise(g, v, p):
  v = map_(lambda v, g: 0.9 * v + jnp.sum(g**2), v, g)
  return map_(lambda g, v: g / (jnp.sqrt(v) + 1e-3), g, v), v


def by_rows(g, v, p):
  v = map_(lambda v, g: 0.9 * v + jnp.sum(g**2, -1, keepdims=True), v, g)
  return map_(lambda g, v: g / (jnp.sqrt(v) + 1e-3), g, v), v


def clipped(g, mean, p):
  norm = norm_of(g)
  share = jnp.minimum(1.0, mean / (norm + 1e-6))
  return map_(lambda g: g * share, g), 0.9 * mean + 0.1 * norm


def least(g, low, p):
  low = jnp.minimum(low, norm_of(g))
  return map_(lambda g: g / (1 + low), g), low


def anchored(g, x0, p):
  return map_(lambda g, p, x: g + 0.01 * (p - x), g, p, x0), x0


def late(g, state, p):
  count, before = state
  return map_(lambda g, b: g + 0.5 * b, g, before), (count + 1, g)


zeros = lambda params: map_(jnp.zeros_like, params)
PARTS = {
  'momentum': Part(zeros, momentum),
  'unbiased': Part(lambda p: (0, zeros(p)), unbiased),
  'scaled': Part(zeros, scaled),
  'layerwise': Part(lambda p: map_(lambda _: 0.0, p), layerwise),
  'by_rows': Part(
    lambda p: map_(lambda x: jnp.zeros_like(x[..., :1]), p), by_rows
  ),
  'clipped': Part(lambda p: 1.0, clipped),
  'least': Part(lambda p: jnp.inf, least),
  'anchored': Part(lambda p: map_(jnp.array, p), anchored),
  'late': Part(lambda p: (0, zeros(p)), late),
}


class Two(NamedTuple):
  mu: Any
  hyperparams: Any


# How the states of parts are held: made of a list, and made a list again.
CONTAINERS = {
  'tuple': (tuple, list),
  'list': (list, list),
  'dict': (
    lambda of: {f'b{i}': one for i, one in enumerate(of)},
    lambda state: list(state.values()),
  ),
  'leaves': None,  # all in one list of arrays
  'pair': (lambda of: Two(of[0], tuple(of[1:])), lambda s: [s[0], *s[1]]),
}


def transformation(names, container):
  parts = [PARTS[name] for name in names]

  def both(params):
    if container != 'leaves':
      return CONTAINERS[container]
    like = [part.init(params) for part in parts]
    treedef = jax.tree_util.tree_structure(like)
    return jax.tree_util.tree_leaves, treedef.unflatten

  def init(params):
    pack, _ = both(params)
    return pack([part.init(params) for part in parts])

  def update(grads, state, params):
    pack, unpack = both(params)
    states = unpack(state)
    for i, part in enumerate(parts):
      grads, states[i] = part.update(grads, states[i], params)
    return grads, pack(states)

  return optax.GradientTransformation(init, update)


def in_chain(own, rate):
  return optax.chain(own, optax.scale(-rate))


def with_schedule(own, rate):
  decay = optax.linear_schedule(1.0, 0.5, 10)
  return optax.chain(own, optax.scale_by_schedule(decay), optax.scale(-rate))


everything = lambda params: map_(lambda _: True, params)
WRAPPERS = {
  'none': lambda it: it,
  'masked': lambda it: optax.masked(it, everything),
  'apply_if_finite': lambda it: optax.apply_if_finite(it, 3),
  'flatten': optax.flatten,
  'MultiSteps': lambda it: optax.MultiSteps(it, 2).gradient_transformation(),
}


class MadeUp(NamedTuple):
  """One, and whether it has a schedule of its own."""

  build: Any  # rate -> transformation
  has_schedule: bool


def draw(data):
  """A transformation, of hypothesis' data."""
  names = st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=3)
  names = data.draw(names, label='parts')
  container = data.draw(st.sampled_from(sorted(CONTAINERS)), label='container')
  outer = st.sampled_from([in_chain, with_schedule])
  outer = data.draw(outer, label='outer')
  wrappers = st.lists(st.sampled_from(sorted(WRAPPERS)), max_size=2)
  wrappers = data.draw(wrappers, label='wrappers')

  def build(rate):
    made = outer(transformation(names, container), rate)
    for name in wrappers:
      made = WRAPPERS[name](made)
    return made

  return MadeUp(build, outer is with_schedule)

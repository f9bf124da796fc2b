"""One state for a chain whose cycles have different inner optimizers.

The saved state has one structure for the whole run. Of each kind of array
(shape and dtype) the pool has as many as the optimizer that needs most of them:
AdamW and Nesterov momentum share one tree of the parameters' shapes, and AdamW
has another to itself. An optimizer's state is taken from the pool and put back
within the compiled step, where that costs nothing: arrays that an optimizer
does not use pass through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .inner import Inner, InnerHparams, Slots

Pool = tuple[jax.Array, ...]
# The structure of a state does not depend on its numbers.
_ANY = InnerHparams(0.5, 0.5, 1e-8, 1.0)


@dataclasses.dataclass(frozen=True)
class Pooled:
  """An inner optimizer whose state lies in a pool; itself an `Inner`.

  Attributes:
    inner: the optimizer.
    treedef: the structure of its state.
    places: the index in the pool of each leaf of its state.
    kinds: shapes and dtypes of all arrays in the pool.
  """

  inner: Inner
  treedef: Any
  places: tuple[int, ...]
  kinds: tuple[jax.ShapeDtypeStruct, ...]

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    own = self.inner.build(hparams, rate, weight_decay)

    def init(params: Any) -> Pool:
      empty = tuple(jnp.zeros(kind.shape, kind.dtype) for kind in self.kinds)
      return self._put(empty, own.init(params))

    def update(grads: Any, pool: Pool, params: Any = None) -> tuple[Any, Pool]:
      updates, state = own.update(grads, self._take(pool), params)
      return updates, self._put(pool, state)

    return optax.GradientTransformation(init, update)

  def begin(self, old: tuple[Pool, Any]) -> tuple[Pool, Any]:
    """The pool with which this optimizer starts from the parameters.

    Args:
      old: (pool, parameters); the pool's values are not used.

    Returns:
      (pool, parameters); the parameters are unchanged, so that they can be
      donated together with the pool.
    """
    _, params = old
    return self.build(_ANY, 0.0, 0.0).init(params), params

  def slots(self, opt_state: Pool) -> Slots:
    """The optimizer's slots; a reset leaves the rest of the pool as it is."""
    return self.inner.slots(self._take(opt_state))

  def with_slots(self, opt_state: Pool, slots: Slots) -> Pool:
    """See `Inner`."""
    state = self.inner.with_slots(self._take(opt_state), slots)
    return self._put(opt_state, state)

  def eval_params(self, opt_state: Pool, params: Any) -> Any:
    """See `Inner`."""
    return self.inner.eval_params(self._take(opt_state), params)

  def _take(self, pool: Pool) -> Any:
    leaves = [pool[place] for place in self.places]
    return jax.tree_util.tree_unflatten(self.treedef, leaves)

  def _put(self, pool: Pool, state: Any) -> Pool:
    new = dict(enumerate(pool))
    new.update(zip(self.places, jax.tree_util.tree_leaves(state)))
    return tuple(new[place] for place in range(len(pool)))


class Untouched:
  """Stands for an optimizer that ends with its cycle: nothing to reset."""

  def slots(self, opt_state: Any) -> Slots:
    """No slots."""
    del opt_state
    return Slots((), (), ())

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """The state, unchanged."""
    del slots
    return opt_state


def pooled(inners: Sequence[Inner], params: Any) -> tuple[Inner, ...]:
  """The inner optimizers, with one common state structure.

  Args:
    inners: the different optimizers of a chain.
    params: tree of anything with shape and dtype.

  Returns:
    As many: the optimizer itself if there is only one, else a `Pooled` for
      each.
  """
  if len(inners) == 1:
    return tuple(inners)
  states = [
    jax.eval_shape(inner.build(_ANY, 0.0, 0.0).init, params) for inner in inners
  ]
  kinds: list[jax.ShapeDtypeStruct] = []
  all_places = [_find_places(state, kinds) for state in states]
  return tuple(
    Pooled(inner, jax.tree_util.tree_structure(state), places, tuple(kinds))
    for inner, state, places in zip(inners, states, all_places)
  )


def _find_places(
  state: Any, kinds: list[jax.ShapeDtypeStruct]
) -> tuple[int, ...]:
  """A place in the pool for each leaf; `kinds` grows if none is free."""
  free = list(range(len(kinds)))
  places = []
  for leaf in jax.tree_util.tree_leaves(state):
    kind = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    same = (i for i in free if kinds[i] == kind)
    place = next(same, None)
    if place is None:
      place = len(kinds)
      kinds.append(kind)
    else:
      free.remove(place)
    places.append(place)
  return tuple(places)

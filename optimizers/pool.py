"""One state for a chain whose cycles have different inner optimizers.

The saved state has one structure for the whole run. Of each kind of entry (a tree
with the parameters' structure or a single array, of given shapes and dtypes) the
pool has as many as the optimizer that needs most of them: AdamW and Nesterov
momentum share one tree of the parameters' shapes, and AdamW has another to itself.
The trees stay whole, so that the path of each leaf ends with that of its
parameter; sharded parameters are matched by it. An optimizer's state is taken
from the pool and put back within the compiled step, where that costs nothing:
entries that an optimizer does not use pass through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .inner import Inner, InnerHparams, Slots

Pool = tuple[Any, ...]  # trees of the parameters' structure, and arrays
EntryKind = tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]  # treedef, leaves
# The structure of a state does not depend on its numbers.
_ANY = InnerHparams(0.5, 0.5, 1e-8, 1.0)


@dataclasses.dataclass(frozen=True)
class Pooled:
  """An inner optimizer whose state lies in a pool; itself an `Inner`.

  Attributes:
    inner: the optimizer.
    treedef: the structure of its state, whose leaves are entries of the pool.
    places: the index in the pool of each of these entries.
    kinds: the kinds of all entries in the pool.
  """

  inner: Inner
  treedef: Any
  places: tuple[int, ...]
  kinds: tuple[EntryKind, ...]

  def build(
    self,
    hparams: InnerHparams,
    rate: float | jax.Array,
    weight_decay: float | jax.Array,
  ) -> optax.GradientTransformation:
    """See `Inner`."""
    own = self.inner.build(hparams, rate, weight_decay)

    def init(params: Any) -> Pool:
      return self._put(tuple(map(_zeros, self.kinds)), own.init(params))

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
    entries = [pool[place] for place in self.places]
    return jax.tree_util.tree_unflatten(self.treedef, entries)

  def _put(self, pool: Pool, state: Any) -> Pool:
    new = dict(enumerate(pool))
    new.update(zip(self.places, self.treedef.flatten_up_to(state)))
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
  structure: Any = jax.tree_util.tree_structure(params)

  def is_tree(x: Any) -> bool:
    return bool(structure == jax.tree_util.tree_structure(x))

  kinds: list[EntryKind] = []
  found = [jax.tree_util.tree_flatten(s, is_leaf=is_tree) for s in states]
  all_places = [_find_places(entries, kinds) for entries, _ in found]
  return tuple(
    Pooled(inner, treedef, places, tuple(kinds))
    for inner, (_, treedef), places in zip(inners, found, all_places)
  )


def _kind_of(entry: Any) -> EntryKind:
  leaves, treedef = jax.tree_util.tree_flatten(entry)
  return treedef, tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves)


def _zeros(kind: EntryKind) -> Any:
  treedef, leaves = kind
  zeros = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in leaves]
  return jax.tree_util.tree_unflatten(treedef, zeros)


def _find_places(
  entries: Sequence[Any], kinds: list[EntryKind]
) -> tuple[int, ...]:
  """A place in the pool for each entry; `kinds` grows if none is free."""
  free = list(range(len(kinds)))
  places = []
  for entry in entries:
    kind = _kind_of(entry)
    same = (i for i in free if kinds[i] == kind)
    place = next(same, None)
    if place is None:
      place = len(kinds)
      kinds.append(kind)
    else:
      free.remove(place)
    places.append(place)
  return tuple(places)

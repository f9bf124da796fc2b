"""A user's optax optimizer, and the state fields that a reset may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import optax

from ..optimizers.inner import InnerHparams, Slots
from ..settings.checks import check

# (learning rate, weight decay), each shape=() -> the transformation of a step.
MakeOptimizer = Callable[[Any, Any], optax.GradientTransformation]


class NamedSlots:
  """Any optax transformation as an inner optimizer; see `optimizers.Inner`.

      NamedSlots(
        lambda rate, decay: optax.lion(rate, weight_decay=decay),
        moments=['mu'], counts=['count'])

  Fields are named as in the NamedTuples of the transformation's state; a name
  stands for every field of that name, however deeply nested.
  """

  def __init__(
    self,
    make: MakeOptimizer,
    moments: Sequence[str] = (),
    iterates: Sequence[str] = (),
    counts: Sequence[str] = (),
  ) -> None:
    """Names the slots; see `optimizers.Slots`.

    Args:
      make: (learning rate, weight decay) -> transformation, called while a step
        is traced; both may be traced. The structure of the state must not
        depend on them.
      moments: fields with averages of gradients, which a reset shrinks.
      iterates: fields with parameters, which a reset blends.
      counts: fields with counts, which go back to zero with the moments.
    """
    self._make = make
    # In the order of Slots' fields.
    self._names = {
      'moments': tuple(moments),
      'iterates': tuple(iterates),
      'counts': tuple(counts),
    }

  def build(
    self, hparams: InnerHparams, rate: Any, weight_decay: Any
  ) -> optax.GradientTransformation:
    """See `Inner`; `make` sets all other hyperparameters itself."""
    del hparams
    return self._make(rate, weight_decay)

  def slots(self, opt_state: Any) -> Slots:
    """See `Inner`."""
    return Slots(
      moments=_found(opt_state, self._names['moments']),
      iterates=_found(opt_state, self._names['iterates']),
      counts=_found(opt_state, self._names['counts']),
    )

  def with_slots(self, opt_state: Any, slots: Slots) -> Any:
    """See `Inner`."""
    for kind, names in self._names.items():
      values = iter(getattr(slots, kind))
      opt_state = _with_fields(opt_state, names, values)
    return opt_state

  def eval_params(self, opt_state: Any, params: Any) -> Any:
    """`params` as they are; the user's loop decides what is evaluated."""
    del opt_state
    return params

  def check_state(self, opt_state: Any, params: Any) -> None:
    """Refuses names that do not fit the state.

    Raises:
      ValueError: if a field does not exist, or moments or iterates do not have
        the structure of the parameters.
    """
    for kind, names in self._names.items():
      for name in names:
        found = _found(opt_state, (name,))
        right = "the name of a field of the optimizer's state"
        check(bool(found), kind, name, right)
        right = "a field with the parameters' structure"
        fits = all(_are_alike(tree, params) for tree in found)
        check(kind == 'counts' or fits, kind, name, right)


def _are_alike(tree: Any, params: Any) -> bool:
  structures = map(jax.tree_util.tree_structure, (tree, params))
  return len(set(structures)) == 1


def _found(state: Any, names: Sequence[str]) -> tuple[Any, ...]:
  return tuple(_fields(state, names))


def _fields(state: Any, names: Sequence[str]) -> Iterator[Any]:
  if hasattr(state, '_fields'):
    for name, value in zip(state._fields, state):
      yield from [value] if name in names else _fields(value, names)
  elif isinstance(state, (tuple, list)):
    for value in state:
      yield from _fields(value, names)


def _with_fields(
  state: Any, names: Sequence[str], values: Iterator[Any]
) -> Any:
  """The state with the next values in its fields, in the order of `_fields`."""
  if hasattr(state, '_fields'):
    return type(state)(
      *(
        next(values) if name in names else _with_fields(value, names, values)
        for name, value in zip(state._fields, state)
      )
    )
  if isinstance(state, (tuple, list)):
    return type(state)(_with_fields(value, names, values) for value in state)
  return state

"""The state of a loop: its fields, its checks, and other contents."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path, tree_leaves

from ..core.checks import check, check_count
from ..optimizers.clocked import ClockedState


class State(NamedTuple):
  """What a loop trains.

  Any NamedTuple or dataclass with these fields will do as well.
  """

  params: Any
  opt_state: ClockedState
  batch_stats: Any = None  # of BatchNorm and the like; blended like parameters


def contents(state: Any, fields: Sequence[str], like: State) -> State:
  """Parameters, optimizer state and statistics of any state of a loop.

  Args:
    state: a NamedTuple or a dataclass.
    fields: the fields of `State` that the state must have.
    like: a state with the shapes and types that are right.

  Raises:
    ValueError: if this is not a state of these cycles, or was donated.
  """
  content = check_state(state, fields)
  opt = content.opt_state
  words = {name: getattr(opt, name) for name in ('clock', 'control')}
  for name, leaf in words.items():
    must_be = 'an array (from an nnx.Optimizer: see examples/flax_nnx.py)'
    is_array = isinstance(leaf, (jax.Array, np.ndarray))
    check(is_array, f'state.opt_state.{name}', type(leaf).__name__, must_be)
  _check_leaves(content, like)
  _check_precision(content, like)
  check_alive(content)
  for name, leaf in words.items():
    must_be = 'int32, as it was saved: its bits are the numbers of the run'
    is_whole = np.issubdtype(leaf.dtype, np.integer) and leaf.dtype.itemsize > 3
    check(
      is_whole, f'dtype of state.opt_state.{name}', str(leaf.dtype), must_be
    )
  return content


def check_state(state: Any, fields: Sequence[str]) -> State:
  """The fields of a state; ValueError if it lacks one, or the cycles' clock."""
  is_state = hasattr(state, '_replace') or dataclasses.is_dataclass(state)
  is_state &= all(hasattr(state, name) for name in fields)
  must_be = f'a NamedTuple or a dataclass with {" and ".join(fields)}'
  must_be += ' (from an nnx.Optimizer: see examples/flax_nnx.py)'
  check(is_state, 'state', type(state).__name__, must_be)
  content = State(*(getattr(state, name) for name in fields))
  opt = content.opt_state
  must_be = 'of cycles.optimizer.init (wrap the optimizer handed to Cycles)'
  check(
    isinstance(opt, ClockedState),
    'state.opt_state',
    type(opt).__name__,
    must_be,
  )
  return content


def with_contents(state: Any, changes: Mapping[str, Any]) -> Any:
  """The state with other contents, made without its class's constructor."""
  if hasattr(state, '_replace'):
    return state._replace(**changes)
  changed = copy.copy(state)
  for name, value in changes.items():
    object.__setattr__(changed, name, value)  # also where it is frozen
  return changed


def whole_step(step: Any) -> int:
  """A step of any type as a Python number; waits for a number on a device.

  Raises:
    ValueError: if the step is not a whole number of at least 0.
  """
  must_be = 'a whole number of at least 0; the state is the last argument'
  check(not hasattr(step, 'params'), 'step', type(step).__name__, must_be)
  if hasattr(step, 'dtype'):
    step = np.asarray(step).tolist()
  check_count('step', step, least=0)
  return int(step)


def _check_leaves(state: State, like: State) -> None:
  """Raises ValueError with the path of the first leaf of another shape."""
  shapes, expected = (
    {path: np.shape(leaf) for path, leaf in leaves}
    for leaves in (tree_flatten_with_path(tree)[0] for tree in (state, like))
  )
  for path in {**expected, **shapes} if shapes != expected else ():
    name = f'shape of state{keystr(path)}'
    has, must_be = shapes.get(path, 'absent'), expected.get(path, 'absent')
    check(has == must_be, name, has, f'{must_be} in these cycles')


def _check_precision(state: State, like: State) -> None:
  """Raises ValueError with the path of the first leaf of another precision.

  Batch statistics have the precision that the model gives them. A host's
  float64 counts in the precision that it has on a device.
  """
  for name, must_be in (
    ('params', 'as make_params makes it: cast it, or what make_params returns'),
    ('opt_state', "as cycles.optimizer.init makes it for make_params' types"),
  ):
    part, expected = getattr(state, name), getattr(like, name)
    leaves = tree_leaves(expected)
    for (path, leaf), shape in zip(tree_flatten_with_path(part)[0], leaves):
      if jnp.issubdtype(shape.dtype, jnp.inexact):
        has, dtype = jnp.result_type(leaf), shape.dtype
        where = f'dtype of state.{name}{keystr(path)}'
        check(has == dtype, where, str(has), f'{dtype}, {must_be}')


def types_of(params: Any) -> list[Any]:
  """The types of the leaves; no device is waited for."""
  return [getattr(leaf, 'dtype', None) for leaf in tree_leaves(params)]


def check_optimizer(opt_state: Any, like: Any) -> None:
  """Raises ValueError if the leaves of a state are not those of another one."""
  must_be = (
    "of these cycles' optimizer, as optimizer.init makes it; of an "
    'nnx.Optimizer, nnx.as_pure(optimizer.opt_state)'
  )
  paths, expected = (
    [keystr(path) for path, _ in tree_flatten_with_path(state)[0]]
    for state in (opt_state, like)
  )
  name = type(getattr(opt_state, 'inner', opt_state)).__name__
  check(paths == expected, 'state.opt_state', name, must_be)


def check_alive(state: Any) -> None:
  """Raises ValueError if a reset has donated the state.

  Args:
    state: parameters, or a whole state; a tree of arrays.
  """
  for path, leaf in tree_flatten_with_path(state)[0]:
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
      raise ValueError(
        f'state{keystr(path)} has been deleted: a reset donates the state that '
        'it is given. Go on with the state that before_step and '
        'after_evaluation return, and keep copies of what you need.'
      )

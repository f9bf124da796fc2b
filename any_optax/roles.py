"""What a reset does to each leaf of an optimizer's state, by how it behaves.

Any optax optimizer is traced, once as it begins and once as it takes a step. The
roles follow from what flows where, not from names or containers:

  iterate  begins with the values of a parameter, in its shape (z, x0, slow
           weights); or sums up what the learning rates weigh in such an average
  moment   begins without values of parameters, takes in gradients, and has the
           shape of a parameter, or fewer or shorter axes. All parameters in one
           vector count as a parameter
  count    what else takes in gradients, losses or parameters, and what stands
           directly beside any of these, unless it makes a number that is kept: a
           full reset begins it anew, any other leaves it
  kept     the rest, which nothing flows into that could be NaN: counts of
           schedules, injected hyperparameters, random keys
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import DictKey, SequenceKey, keystr, tree_flatten_with_path

from ..optimizers.base import Step
from ..optimizers.roles import COUNT, ITERATE, KEPT, MOMENT
from .dependence import Argument, Origin, origins

Build = Callable[[Step], Any]  # makes the transformation of one step
Shape = tuple[int, ...]
# What optax's transformations ask for besides gradients: in turn, until one fits.
_LINE_SEARCH = ('value', 'grad', 'value_fn')
_ASKED = ((), _LINE_SEARCH, ('obj_fn',), (*_LINE_SEARCH, 'obj_fn'))
# What an optimizer says that asks for something else.
_LACKS = 'required|missing|provided'


class Behaviour(NamedTuple):
  """How an optimizer begins, and what a step does; see `behaviour_of`.

  Sets of parameters are ints, with bit i for parameter i.
  """

  targets: list[Any]  # paths of the parameters
  shapes: list[Shape]  # of those that have a gradient of their own
  state: list[Any]  # paths and shapes of the state's leaves
  begins: list[int]  # of each, the parameters whose values it begins with
  # The origins of the state's leaves after a step, and of the updates. None: a
  # step needs arguments that only the loop knows.
  after: list[Origin] | None
  updates: list[Origin] | None
  # The inputs of these: rate, share passed, gradients, losses (first the value),
  # state, parameters.
  parts: list[Argument]


class Roles(NamedTuple):
  """What a reset does to an optimizer's state."""

  of: dict[str, int]  # by path
  # Paths that a blended model may leave without a meaning: what remembers
  # several steps (L-BFGS), or a loss (line search).
  doubtful: list[str]


def behaviour_of(build: Build, params: Any) -> Behaviour:
  """Traces an optimizer; nothing is computed.

  Args:
    build: what a step is told -> the transformation that takes it.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.

  Raises:
    Exception: whatever the optimizer raises.
  """
  number = jax.ShapeDtypeStruct((), jnp.float32)
  init = build(Step(jnp.float32(0))).init
  state = jax.eval_shape(init, params)
  # lookahead's parameters are two copies, with one gradient for both.
  grads = params.fast if isinstance(params, optax.LookaheadParams) else params
  shapes = [leaf.shape for leaf in jax.tree_util.tree_leaves(grads)]
  begun, _ = origins(init, params)
  begins = [_folded(origin.values, len(shapes)) for origin in begun]

  found: list[Origin] = []
  parts: list[Argument] = []
  refusals: list[Exception] = []
  for names in _ASKED:
    args = number, number, grads, (number, grads), state, params
    try:
      found, parts = origins(_step_of(build, names), *args)
      break
    except (LookupError, TypeError, ValueError) as error:
      refusals.append(error)
  if not found and not re.search(_LACKS, str(refusals[0])):
    raise refusals[0]
  count = len(begins)
  return Behaviour(
    [path for path, _ in tree_flatten_with_path(params)[0]],
    shapes,
    tree_flatten_with_path(state)[0],
    begins,
    found[:count] or None,
    found[count:] or None,
    parts,
  )


def _step_of(build: Build, names: Sequence[str]) -> Callable[..., Any]:
  """A function of the inputs of `Behaviour.parts`; returns state and updates.

  Args:
    build: see `behaviour_of`.
    names: what is told about the loss.
  """

  def loss(params: Any, **_: Any) -> Any:
    leaves = jax.tree_util.tree_leaves(params)
    # Of the fourth power the second derivatives depend on the parameters too.
    return sum(jnp.sum(leaf**4) for leaf in leaves)

  def step(
    rate: Any, passed: Any, grads: Any, losses: Any, state: Any, params: Any
  ) -> Any:
    value, grad = losses
    known = dict(value=value, grad=grad, value_fn=loss, obj_fn=loss)
    more = {name: known[name] for name in names}
    own = build(Step(rate, passed=passed))
    updates, after = own.update(grads, state, params, **more)
    return after, updates

  return step


def _folded(params: int, count: int) -> int:
  """A set of parameters, both halves of lookahead's as one."""
  return (params | params >> count) & (1 << count) - 1


def frozen_in(behaviour: Behaviour) -> list[bool]:
  """For each parameter, whether the optimizer leaves it untrained.

  It trains what it updates by the leaf's own gradient and the learning rate. An
  optimizer whose update wants arguments that only the loop knows is taken to
  train everything.

  Raises:
    ValueError: if no update depends on the learning rate.
  """
  if behaviour.updates is None:
    return [False] * len(behaviour.targets)
  rate, _, grads, *_ = behaviour.parts
  reached = [origin.reached for origin in behaviour.updates]
  if not any(map(rate.of, reached)):
    raise ValueError(
      'its updates would be the same whatever the learning rate of the cycles: '
      'a number or a schedule of its own stays in force'
    )
  return [
    not (rate.of(inputs) and grads.of(inputs) >> i % grads.size & 1)
    for i, inputs in enumerate(reached)
  ]


def roles_of(
  behaviour: Behaviour,
  frozen: Sequence[bool],
  declared: Callable[[Any], int] | None = None,
) -> Roles:
  """What a reset does to each leaf of an optimizer's state.

  Args:
    behaviour: of the optimizer.
    frozen: for each parameter, whether no reset touches it. What begins with the
      values of such parameters alone is a count: begun anew from them.
    declared: path of a leaf -> its role, of an optimizer that names them.
  """
  count = len(behaviour.shapes)
  kept = sum(1 << i for i, is_kept in enumerate(frozen[:count]) if is_kept)
  takes_in = _takes_in(behaviour)
  found: list[Any] = []
  for i, (path, _) in enumerate(behaviour.state):
    role = declared(path) if declared else _mirrored(i, takes_in[i], behaviour)
    begins = behaviour.begins[i]
    if role == ITERATE and begins and not begins & ~kept:
      role = COUNT
    found.append(role)
  has_iterates = ITERATE in found
  lone = [i for i, role in enumerate(found) if role is None]
  nodes = _nodes(behaviour, found, takes_in)
  kept_numbers = [
    i
    for i in lone
    if not takes_in[i] and behaviour.state[i][0][:-1] not in nodes
    if _is_real(behaviour, i)
  ]
  doubtful = []
  for i in lone:
    path, leaf = behaviour.state[i]
    is_loss = bool(leaf.shape) or _is_loss(i, behaviour)
    if _is_real(behaviour, i) and takes_in[i] and is_loss:
      doubtful.append(keystr(path))
    is_weight = not takes_in[i] and _is_weight(i, behaviour)
    if has_iterates and is_weight and _is_real(behaviour, i):
      found[i] = ITERATE
    elif takes_in[i]:
      found[i] = COUNT
    else:
      is_beside = path[:-1] in nodes
      goes_on = any(_flows(behaviour, i, j) for j in kept_numbers if j != i)
      found[i] = COUNT if is_beside and not goes_on else KEPT
  names = [keystr(path) for path, _ in behaviour.state]
  return Roles(dict(zip(names, found)), doubtful)


def _nodes(
  behaviour: Behaviour, roles: Sequence[int | None], takes_in: Sequence[int]
) -> set[Any]:
  """The nodes of a state in which something begins anew in a full reset."""
  nodes: set[Any] = set()
  targets = set(behaviour.targets)
  for (path, _), role, taken in zip(behaviour.state, roles, takes_in):
    if role is not None:
      nodes.update(_homes(path, targets))
    elif taken:
      nodes.add(path[:-1])
  return nodes


def _is_real(behaviour: Behaviour, i: int) -> bool:
  dtype = behaviour.state[i][1].dtype
  return bool(jnp.issubdtype(dtype, jnp.inexact))


def _flows(behaviour: Behaviour, i: int, j: int) -> bool:
  """Whether leaf i of the state makes what leaf j is after a step."""
  if behaviour.after is None:
    return False
  state = behaviour.parts[4]
  return bool(state.of(behaviour.after[j].values) >> i & 1)


def _mirrored(i: int, takes_in: int, behaviour: Behaviour) -> int | None:
  """MOMENT or ITERATE, if a leaf of the state is one for each parameter."""
  leaf, begins = behaviour.state[i][1], behaviour.begins[i]
  if not _is_real(behaviour, i):
    return None
  if begins:
    is_copy = _is_copy(leaf.shape, begins, behaviour.shapes)
    return ITERATE if is_copy else None
  is_moment = bool(takes_in) and _is_moment(i, takes_in, behaviour)
  return MOMENT if is_moment else None


def _takes_in(behaviour: Behaviour) -> list[int]:
  """Of each leaf, the parameters whose values or gradients flow into it."""
  count = len(behaviour.shapes)
  every = (1 << count) - 1
  if behaviour.after is None:
    return [every] * len(behaviour.begins)
  _, _, grads, losses, state, params = behaviour.parts
  found = [
    begins
    | grads.of(origin.values)
    | _folded(params.of(origin.values), count)
    | every * bool(losses.of(origin.values))
    for begins, origin in zip(behaviour.begins, behaviour.after)
  ]
  inner = [state.of(origin.values) for origin in behaviour.after]
  while True:
    before = list(found)
    for i, of in enumerate(inner):
      for j in _members(of):
        found[i] |= found[j]
    if found == before:
      return found


def _members(bits: int) -> Iterator[int]:
  """The numbers in a set."""
  while bits:
    lowest = bits & -bits
    yield lowest.bit_length() - 1
    bits ^= lowest


def _is_copy(shape: Shape, begins: int, shapes: Sequence[Shape]) -> bool:
  """Whether it begins with values of parameters, one for each of theirs."""
  own = [shapes[i] for i in _members(begins)]
  return shape in own or (bool(own) and shape == _joined(own))


def _joined(shapes: Sequence[Shape]) -> Shape:
  return (sum(map(math.prod, shapes)),)


def _is_moment(i: int, takes_in: int, behaviour: Behaviour) -> bool:
  """Whether what takes in gradients has a shape that an average of them may."""
  shape = behaviour.state[i][1].shape
  own = [behaviour.shapes[j] for j in _members(takes_in)]
  if shape:
    return any(_fits(shape, other) for other in {*own, _joined(own)})
  if len(behaviour.shapes) == 1:
    return not behaviour.shapes[0]
  # A number is one if it belongs to one parameter of several.
  return len(own) == 1 or len(_moves(i, behaviour)) == 1


def _moves(i: int, behaviour: Behaviour) -> list[int]:
  """The parameters whose updates a leaf of the state flows into."""
  if behaviour.updates is None:
    return []
  state = behaviour.parts[4]
  flows = [state.of(origin.values) >> i & 1 for origin in behaviour.updates]
  return [j for j, is_moved in enumerate(flows) if is_moved]


def _fits(shape: Shape, other: Shape) -> bool:
  """Whether a shape is another one with axes left out, or of length 1.

  As a factored moment has it: rows (8,) and columns (1, 2) of (8, 2).
  """
  if not shape:
    return True
  if len(shape) > len(other):
    return False
  is_first = shape[0] in (1, other[0])
  return (is_first and _fits(shape[1:], other[1:])) or _fits(shape, other[1:])


def _is_weight(i: int, behaviour: Behaviour) -> bool:
  """Whether it is a number to which each step adds what the rate makes."""
  if behaviour.after is None or behaviour.state[i][1].shape:
    return False
  rate, _, _, _, state, _ = behaviour.parts
  origin = behaviour.after[i]
  is_sum = origin.is_sum and origin.base == state.start + i
  return is_sum and bool(rate.of(origin.values))


def _is_loss(i: int, behaviour: Behaviour) -> bool:
  """Whether it is a loss that the last step was told, and no average of some."""
  if behaviour.after is None:
    return False
  _, _, _, losses, state, _ = behaviour.parts
  values = behaviour.after[i].values
  return bool(losses.of(values) & 1) and not state.of(values) >> i & 1


def _homes(path: Any, targets: set[Any]) -> Iterator[Any]:
  """The paths of the nodes that a moment, a tree like the parameters, is in.

  Args:
    path: of a leaf of it.
    targets: paths of the parameters.
  """
  # Behind the parameter's path there may be one more index, as in SM3.
  starts = [
    (start, end) for end in (len(path), len(path) - 1) for start in range(end)
  ]
  found = (start for start, end in starts if path[start:end] in targets)
  start = next(found, None)
  kinds = SequenceKey if start is not None else (SequenceKey, DictKey)
  root = path[:start]
  yield root[:-1]
  while root and isinstance(root[-1], kinds):
    root = root[:-1]
    yield root[:-1]

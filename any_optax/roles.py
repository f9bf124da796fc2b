"""What a reset does to each leaf of an optimizer's state, by how it behaves.

An optax optimizer is traced, once as it begins and once as it takes a step. The
roles follow from what flows where, and not from names or containers:

- iterate: blended with its fresh value, as the parameters are. Example:
  Schedule-Free's z, which begins as a copy of the parameters.
- moment: shrinks towards its first value. Example: Adam's mu, an average of
  gradients in the shape of a parameter.
- count: begins anew in a full reset, and any other reset leaves it. Examples:
  a mean norm of the gradients; Adam's count, which stands beside mu.
- kept: left by every reset. No gradient, loss or parameter flows into it, so it
  cannot become NaN. Example: the count of a schedule, in a node of its own.

The table `QUESTIONS` decides; each question has an example.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jax.tree_util import DictKey, SequenceKey, keystr

from ..optimizers.roles import COUNT, ITERATE, KEPT, MOMENT
from .behaviour import ArrayShape, Behaviour, Leaf


class Roles(NamedTuple):
  """What a reset does to an optimizer's state."""

  of: dict[Any, int]  # by key path
  doubtful: list[str]  # paths whose question is in `NO_BLEND`


@dataclasses.dataclass(frozen=True)
class Surroundings:
  """What the answers about a leaf depend on besides the leaf."""

  behaviour: Behaviour
  frozen: frozenset[int]  # parameters that no reset touches

  def shapes_of(self, params: frozenset[int]) -> set[ArrayShape]:
    """The shapes of parameters, and that of all of them in one vector."""
    shapes = [self.behaviour.shapes[i] for i in params]
    return {*shapes, (sum(map(math.prod, shapes)),)} if shapes else set()

  def begins_frozen(self, leaf: Leaf) -> bool:
    """Whether a leaf begins with values of frozen parameters alone."""
    return bool(leaf.begins_with) and leaf.begins_with <= self.frozen

  @functools.cached_property
  def has_iterates(self) -> bool:
    return any(
      copies_parameters(leaf, self) and not self.begins_frozen(leaf)
      for leaf in self.behaviour.leaves
    )

  @functools.cached_property
  def fresh_nodes(self) -> set[Any]:
    """The nodes of the state in which something begins anew in a full reset."""
    nodes: set[Any] = set()
    targets = set(self.behaviour.targets)
    for leaf in self.behaviour.leaves:
      if copies_parameters(leaf, self) or averages_gradients(leaf, self):
        nodes.update(_homes(leaf.path, targets))
      elif leaf.takes_in:
        nodes.add(leaf.path[:-1])
    return nodes

  @functools.cached_property
  def makers(self) -> frozenset[int]:
    """The leaves that flow into another one, a real number that is kept."""
    kept = [
      leaf
      for leaf in self.behaviour.leaves
      if leaf.is_real and not leaf.takes_in
      if leaf.path[:-1] not in self.fresh_nodes
    ]
    return frozenset().union(*(leaf.made_of - {leaf.number} for leaf in kept))


def copies_parameters(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It begins with the values of parameters, in the shape of one of them.

  All parameters in one vector count as a parameter. Example: Schedule-Free's z.
  """
  return leaf.is_real and leaf.shape in surroundings.shapes_of(leaf.begins_with)


def fits_by_chance(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It takes in gradients, and two of their axes are as long as one of its own.

  Example: a basis of (6, 6) for a parameter of (6, 6), of an optimizer that has
  bases only for square parameters. It cannot be looked at with others, and so a
  moment beside the basis cannot be told from it; see `behaviour_of`.
  """
  if leaf.begins_with or not averages_gradients(leaf, surroundings):
    return False
  shapes = [surroundings.behaviour.shapes[i] for i in leaf.takes_in]
  axes = [length for shape in shapes for length in shape if length > 1]
  return any(axes.count(length) > 1 for length in leaf.shape)


def averages_gradients(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It takes in gradients, in the shape of a parameter or with fewer axes.

  Axes may also be 1 long. A number must belong to one parameter of several, or
  to a parameter that is a number. Examples: Adam's mu; the rows of Adafactor;
  NovoGrad's nu, a number for each layer.
  """
  if not leaf.is_real or leaf.begins_with or not leaf.takes_in:
    return False
  if leaf.shape:
    shapes = surroundings.shapes_of(leaf.takes_in)
    return any(_fits(leaf.shape, shape) for shape in shapes)
  if len(surroundings.behaviour.shapes) == 1:
    return not surroundings.behaviour.shapes[0]
  return 1 in (len(leaf.takes_in), len(leaf.moves))


def weighs_iterates(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It is a number to which steps add what the rate makes, beside iterates.

  Example: Schedule-Free's weight_sum, which divides its average.
  """
  is_sum = leaf.is_real and not leaf.shape and leaf.adds_rate
  return is_sum and not leaf.takes_in and surroundings.has_iterates


def remembers_steps(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It takes in gradients or parameters, in a shape that is not theirs.

  Example: the memory of L-BFGS, with a row for each of the last steps.
  """
  return leaf.is_real and bool(leaf.shape and leaf.takes_in)


def remembers_a_loss(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It is made of the last loss, and not of its own old value.

  Example: the value that a line search compares with. An average is made of its
  old value.
  """
  is_last = leaf.takes_loss and leaf.number not in leaf.made_of
  return leaf.is_real and bool(leaf.takes_in) and is_last


def may_become_nan(leaf: Leaf, surroundings: Surroundings) -> bool:
  """Gradients, losses or parameters flow into it, and with them a NaN.

  Example: a mean norm of the gradients.
  """
  return bool(leaf.takes_in)


def makes_a_kept_number(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It makes another number of the state, which is kept.

  Example: the count of a schedule that makes an injected momentum.
  """
  return leaf.number in surroundings.makers


def stands_beside(leaf: Leaf, surroundings: Surroundings) -> bool:
  """It stands directly beside something that begins anew in a full reset.

  Example: Adam's count, beside mu and nu.
  """
  return leaf.path[:-1] in surroundings.fresh_nodes


def stands_alone(leaf: Leaf, surroundings: Surroundings) -> bool:
  """No question above has the answer yes. Example: a schedule's own count."""
  return True


# The role of a leaf is that of the first question whose answer is yes.
QUESTIONS: tuple[tuple[Callable[[Leaf, Surroundings], bool], int], ...] = (
  (copies_parameters, ITERATE),
  (fits_by_chance, COUNT),
  (averages_gradients, MOMENT),
  (weighs_iterates, ITERATE),
  (remembers_steps, COUNT),
  (remembers_a_loss, COUNT),
  (may_become_nan, COUNT),
  (makes_a_kept_number, KEPT),
  (stands_beside, COUNT),
  (stands_alone, KEPT),
)
# Where a reset blends the model, the leaves of these questions may lose their
# meaning.
NO_BLEND = (fits_by_chance, remembers_steps, remembers_a_loss)


def roles_of(
  behaviour: Behaviour,
  frozen: Sequence[bool],
  declared: Callable[[Any], int] | None = None,
) -> Roles:
  """What a reset does to each leaf of an optimizer's state.

  Args:
    behaviour: of the optimizer.
    frozen: for each parameter, whether no reset touches it. An iterate that
      begins with such parameters alone counts as a count: it begins anew from
      them.
    declared: path of a leaf -> its role, of an optimizer that names them.
  """
  numbers = zip(range(len(behaviour.shapes)), frozen)
  surroundings = Surroundings(
    behaviour, frozenset(i for i, is_kept in numbers if is_kept)
  )
  roles = Roles({}, [])
  for leaf in behaviour.leaves:
    if declared is not None:
      role = declared(leaf.path)
    else:
      question, role = next(
        row for row in QUESTIONS if row[0](leaf, surroundings)
      )
      if question in NO_BLEND:
        roles.doubtful.append(keystr(leaf.path))
    is_count = role == ITERATE and surroundings.begins_frozen(leaf)
    roles.of[leaf.path] = COUNT if is_count else role
  return roles


def _fits(shape: ArrayShape, other: ArrayShape) -> bool:
  """Whether a shape is another one with axes left out, or of length 1.

  Example: a factored moment has rows (8,) and columns (1, 2) of (8, 2).
  """
  if not shape:
    return True
  if len(shape) > len(other):
    return False
  is_first = shape[0] in (1, other[0])
  return (is_first and _fits(shape[1:], other[1:])) or _fits(shape, other[1:])


def _homes(path: Any, targets: set[Any]) -> Iterator[Any]:
  """The paths of the nodes that contain a moment, a tree like the parameters.

  Args:
    path: of a leaf of the moment.
    targets: paths of the parameters.
  """
  # Behind the parameter's path there may be one more index, as in SM3.
  starts = [
    (start, end) for end in (len(path), len(path) - 1) for start in range(end)
  ]
  within = (start for start, end in starts if path[start:end] in targets)
  start = next(within, None)
  kinds = SequenceKey if start is not None else (SequenceKey, DictKey)
  root = path[:start]
  yield root[:-1]
  while root and isinstance(root[-1], kinds):
    root = root[:-1]
    yield root[:-1]

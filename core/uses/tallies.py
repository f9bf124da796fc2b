"""What a trace says of each parameter, use by use, and the form by all of it.

Where a parameter has several uses that contradict each other:

- A look-up wins: a table that also makes the logits is a table. Of a row that
  is looked up by a number only the logits say so; else it is one of a stack.
- Of several matrices the one wins that is applied to the most rows, and among
  equals the first in the trace. So the first layer that shares a matrix
  decides, and no regulariser or power iteration.
- A use in the forward pass wins over those in gradients that the function takes
  of itself, where the trace names these (not in jax 0.4.13). What is never
  used counts for nothing.
- Being added or multiplied decides only where there is no other use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..forms import DEPTHWISE, TABLE, VECTOR, Form, matrix
from .outputs import Outputs, resolved
from .tracks import Digit, Track
from .values import Value

Roles = dict[Digit, str]  # 'in', 'out' or 'stacked'


class Use(NamedTuple):
  """As a matrix."""

  rows: int  # to how many it is applied
  roles: Roles
  key: Any
  is_mixture: bool = False  # what goes in are weights that sum to 1
  num_backward: int = 0  # gradients that the function itself takes around it


@dataclasses.dataclass
class Tally:
  """Of one parameter; matrices by the equation, so that none counts twice."""

  matrices: dict[Any, Use] = dataclasses.field(default_factory=dict)
  is_table: bool = False
  is_depthwise: bool = False
  is_chosen: bool = False  # rows of several axes are looked up
  is_taken: bool = False  # a single row of one axis is looked up
  is_combined: bool = False  # added to, or multiplied by, something
  is_unclear: bool = False  # as a matrix, or as what goes into another

  @property
  def has_uses(self) -> bool:
    return bool(self.matrices) or any(
      (
        self.is_table,
        self.is_depthwise,
        self.is_chosen,
        self.is_combined,
        self.is_unclear,
      )
    )

  @property
  def is_table_of_words(self) -> bool:
    """Whether one word is looked up at a time, and logits are made of all."""
    return self.is_taken and any(
      {'in', 'out'} <= {r for d, r in use.roles.items() if d.stride}
      for use in self.matrices.values()
    )


class Tallies:
  """Of all parameters, as a walk through a trace fills them.

  Attributes:
    outputs: what becomes of what layers give.
    num_backward: gradients that the function takes around the equation at hand.
  """

  def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
    self._shapes = shapes
    self._tallies = [Tally() for _ in shapes]
    self.outputs = Outputs()
    self.num_backward = 0

  def of(self, track: Track) -> Tally:
    """Of the parameter that a track is of."""
    return self._tallies[track.leaf]

  def note_combined(self, values: Iterable[Value]) -> None:
    """Notes that the parameters in these are added or multiplied."""
    for value in values:
      for track in value.tracks:
        self.of(track).is_combined = True

  def forms(self) -> tuple[Form | None, ...]:
    """Of each parameter; None where its uses do not tell."""
    return tuple(
      _form(shape, tally, self.outputs)
      for shape, tally in zip(self._shapes, self._tallies)
    )


def _form(
  shape: tuple[int, ...], tally: Tally, outputs: Outputs
) -> Form | None:
  """The form that a parameter has by its uses."""
  if not tally.has_uses:
    return None
  if sum(n > 1 for n in shape) < 2:
    return VECTOR
  if tally.is_table or tally.is_table_of_words:
    return TABLE
  if tally.matrices:
    return _form_of_matrix(shape, tally, outputs)
  if tally.is_depthwise:
    return DEPTHWISE
  if tally.is_unclear:
    return None
  return TABLE if tally.is_chosen else VECTOR


def _form_of_matrix(
  shape: tuple[int, ...], tally: Tally, outputs: Outputs
) -> Form | None:
  """The form by the use that counts; None where that does not tell."""
  use = max(
    tally.matrices.values(), key=lambda use: (not use.num_backward, use.rows)
  )
  if not use.rows and tally.is_unclear:
    return None
  roles = use.roles
  if use.num_backward % 2:
    # What comes out of a layer goes into its gradient.
    swap = {'in': 'out', 'out': 'in'}
    roles = {digit: swap.get(role, role) for digit, role in roles.items()}
  final = resolved(roles, outputs.fates(use.key), use.is_mixture)
  return None if final is None else _matrix(shape, final)


def _matrix(shape: tuple[int, ...], roles: Roles) -> Form | None:
  """The form by the roles of an axis' digits; None if they contradict."""
  split: list[int] = []
  axes: dict[str, list[int]] = {'in': [], 'out': [], 'stacked': []}
  for axis, size in enumerate(shape):
    digits = sorted(
      (d for d in roles if d.axis == axis), key=lambda d: -d.stride
    )
    of_axis = {
      roles[d] for d in digits if d.size > 1 or size == 1 or not d.stride
    }
    if len(of_axis) < 2:
      # Of an axis of one entry, or one that was summed, nobody asks.
      axes[of_axis.pop() if of_axis else 'in'].append(len(split))
      split.append(size)
      continue
    digits = [d for d in digits if d.size > 1]
    if not _fill(digits, size):
      return None
    for digit in digits:
      axes[roles[digit]].append(len(split))
      split.append(digit.size)
  own_split = tuple(split) if tuple(split) != shape else ()
  form = matrix(axes['in'], axes['out'], axes['stacked'], own_split)
  _, fan_in, fan_out = form.sides(shape)
  return form if min(fan_in, fan_out) > 1 else VECTOR


def _fill(digits: Sequence[Digit], size: int) -> bool:
  """Whether the digits, the outer first, are those of an axis of this size."""
  sizes = [d.size for d in digits]
  strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
  return strides == [d.stride for d in digits] and math.prod(sizes) == size

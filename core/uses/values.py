"""A value in a trace: what it is made of, and where parameters are in it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..jaxprs import called
from .tracks import Track, distinct

_KEEPS_COMPARISON = {'convert_element_type', 'reshape', 'broadcast_in_dim'}
_KEEPS_COMPARISON |= {'transpose', 'squeeze', 'expand_dims', 'copy'}
# Of codes these make one of several words.
_KEEPS_COMPARISON |= {'reduce_sum', 'reduce_max', 'reduce_or'}


class Level(enum.IntEnum):
  """How far a value is from parameters; a result has its inputs' highest."""

  NUMBER = 0  # a scalar, or many times the same
  PARAMETER = 1  # made of parameters alone
  CONSTANT = 2  # an array from elsewhere: the batch, a mask, random numbers
  DATA = 3  # what a layer has given


class Value(NamedTuple):
  """What is known of a value."""

  tracks: tuple[Track, ...] = ()
  level: int = Level.CONSTANT
  is_comparison: bool = False
  is_weights: bool = False  # made by exp, divided: softmax; or by a sigmoid
  given: tuple[Track, ...] = ()  # where the axes are that layers have given

  def with_each(self, change: Callable[[Track], Track]) -> Value:
    """With every track changed alike."""
    return self._replace(
      tracks=tuple(map(change, self.tracks)),
      given=tuple(map(change, self.given)),
    )


def untracked(equation: Any, inputs: Sequence[Value]) -> list[Value]:
  """The values of an equation's outputs in which no parameter is followed."""
  name = equation.primitive.name
  level = max((v.level for v in inputs), default=Level.CONSTANT)
  if name in _KEEPS_COMPARISON:
    is_comparison = inputs[0].is_comparison
  else:
    is_comparison = name == 'eq' or (
      called(equation) is not None
      and 'one_hot' in str(equation.params.get('name'))
    )
  is_weights = makes_weights(equation, inputs)
  return [Value((), level, is_comparison, is_weights) for _ in equation.outvars]


def makes_weights(equation: Any, inputs: Sequence[Value]) -> bool:
  """Whether a value is made by exp, or by a sigmoid, and only scaled since."""
  name = equation.primitive.name
  if name in ('exp', 'logistic'):
    return True
  if name == 'mul':
    arrays = [v for v in inputs if v.level > Level.NUMBER]
    return bool(arrays) and all(v.is_weights for v in arrays)
  kept = ('div', 'top_k', 'gather', 'sort', *_KEEPS_COMPARISON)
  return name in kept and inputs[0].is_weights


def one_of(values: Sequence[Value]) -> Value:
  """Of a value that is one of these, as a condition gives."""
  tracks, given = (
    distinct(t for of_value in column for t in of_value)
    for column in zip(*((v.tracks, v.given) for v in values))
  )
  return Value(tracks, max(v.level for v in values), given=given)


def settled(
  step: Callable[[list[Value]], list[Value]], carry: list[Value]
) -> list[Value]:
  """The values of a loop's carry, and of what else its last round gives.

  Levels only rise, tracks are only dropped, and what layers have given is only
  added, so that they settle.

  Args:
    step: from the carry, what a round of the loop gives: first the next carry.
    carry: before the first round.
  """
  while True:
    outputs = step(carry)
    after = [
      Value(
        tuple(t for t in old.tracks if t in new.tracks),
        max(old.level, new.level),
        old.is_comparison and new.is_comparison,
        old.is_weights and new.is_weights,
        distinct((*old.given, *new.given)),
      )
      for old, new in zip(carry, outputs)
    ]
    if after == carry:
      return [*carry, *outputs[len(carry) :]]
    carry = after

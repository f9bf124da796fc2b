"""The equations that apply a layer: dot products and convolutions.

A dot_general says which axes of a parameter are contracted, and so go in, which
are kept, and so go out, and which are a batch, and so stacked. A convolution
says it by its dimension numbers; a group is a matrix of its own, and a group
for each channel is a depthwise filter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .lookups import rows_by_code
from .matrices import given_by, note_matrix, note_product
from .tallies import Tallies, Use
from .tracks import (
  FREE,
  Digit,
  Track,
  beside,
  digits_of,
  distinct,
  product_of,
  reshaped,
)
from .values import Level, Value


class _Dot(NamedTuple):
  """A dot_general; what has two entries has one for each side."""

  equation: Any
  inputs: Sequence[Value]
  contracted: Sequence[Sequence[int]]
  batch: Sequence[Sequence[int]]
  sizes: list[list[int]]  # of the axes that are kept
  are_layers: list[bool]
  on_both: set[int]  # parameters

  @property
  def is_product(self) -> bool:
    """Whether it is one of two parameters, and applies no layer yet."""
    return all(self.are_layers) and not self.on_both

  def product(self, track: Track, side: int) -> Track:
    """Of the result."""
    axes = self.contracted[side], self.batch[side]
    return product_of(track, side, *axes, self.sizes)

  def given(
    self, tallies: Tallies, track: Track, side: int
  ) -> tuple[Track, ...]:
    """Of the result, where the axes are that an earlier layer has given."""
    return tallies.outputs.after_dot(
      track,
      side,
      self.contracted[side],
      self.batch[side],
      self.sizes,
      self.are_layers[1 - side],
      self.inputs[1 - side].is_weights,
    )

  def roles(self, track: Track, side: int) -> list[str]:
    """Of each axis of one side, if that is a layer."""
    return _roles(track, self.contracted[side], self.batch[side])


def dot_general(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """A layer, a product of two parameters, or rows chosen by a code."""
  dot = _dot(equation, inputs)
  products: list[Track] = []
  given: list[Track] = []
  rows: list[Track] = []
  for side, value in enumerate(inputs):
    for track in value.given:
      given += dot.given(tallies, track, side)
    for track in value.tracks:
      after = dot.product(track, side)
      if inputs[1 - side].is_comparison and dot.contracted[side]:
        rows += rows_by_code(tallies, track, after)
      elif _is_sum_of_chosen(tallies, track, dot.contracted[side]):
        rows.append(beside(track, after))
      elif track.leaf not in dot.on_both:
        use = _use(tallies, dot, track, side)
        given += given_by(tallies, use, after.dims)
        products.append(after)
  if rows:
    return [Value(tuple(rows), Level.PARAMETER)]
  if dot.on_both:
    # A parameter with itself is no layer: a norm, or a regulariser.
    return [Value(level=max(v.level for v in inputs))]
  if dot.is_product:
    return [Value(tuple(products), Level.PARAMETER, given=distinct(given))]
  return [Value(level=Level.DATA, given=distinct(given))]


def _dot(equation: Any, inputs: Sequence[Value]) -> _Dot:
  contracted, batch = equation.params['dimension_numbers']
  left, right = inputs
  sizes = [
    [
      n
      for i, n in enumerate(var.aval.shape)
      if i not in contracted[side] and i not in batch[side]
    ]
    for side, var in enumerate(equation.invars)
  ]
  are_layers = [any(t.is_layer for t in v.tracks) for v in inputs]
  on_both = {t.leaf for t in left.tracks} & {t.leaf for t in right.tracks}
  return _Dot(equation, inputs, contracted, batch, sizes, are_layers, on_both)


def _is_sum_of_chosen(
  tallies: Tallies, track: Track, contracted: Sequence[int]
) -> bool:
  """Whether chosen matrices are only weighed, and have no input yet."""
  dims = [d for dim in track.dims for d in dim if d.axis >= 0]
  gone = {d for i in contracted for d in track.dims[i] if d.size > 1}
  return (
    tallies.of(track).is_chosen
    and not track.bound
    and bool(gone)
    and all(d.axis == FREE for d in gone)
    and len({d.axis for d in dims if d.size > 1}) > 1
  )


def _use(tallies: Tallies, dot: _Dot, track: Track, side: int) -> Use | None:
  """Notes what a dot_general says of a parameter on one side of it."""
  other = dot.inputs[1 - side]
  roles = dot.roles(track, side)
  rows = math.prod(dot.sizes[1 - side])
  if dot.is_product and side and not track.bound:
    # As a layer, unless the product turns out to be one.
    return note_matrix(tallies, dot.equation, track, roles, 0)
  # What goes in may hold parameters too: positions, or a learnt query.
  is_input = dot.are_layers[1 - side] and not dot.are_layers[side]
  if dot.is_product or is_input:
    tallies.of(track).is_combined = True
    return None
  if track.bound:
    return note_product(tallies, dot.equation, track, roles, rows, other.level)
  is_mixture = other.is_weights
  return note_matrix(tallies, dot.equation, track, roles, rows, is_mixture)


def ragged_dot(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """Rows that are sorted by expert, times (experts, in, out)."""
  return _ragged(tallies, equation, inputs, [1], [0])


def ragged_dot_general(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """The same, with axes in any order."""
  numbers = equation.params['ragged_dot_dimension_numbers']
  (_, contracted), (_, batch) = numbers.dot_dimension_numbers
  stacked = [*batch, *numbers.rhs_group_dimensions]
  return _ragged(tallies, equation, inputs, contracted, stacked)


def _ragged(
  tallies: Tallies,
  equation: Any,
  inputs: Sequence[Value],
  contracted: Sequence[int],
  stacked: Sequence[int],
) -> list[Value]:
  rows = max(equation.invars[0].aval.shape)
  tallies.note_combined(inputs[:1])
  for track in inputs[1].tracks:
    roles = _roles(track, contracted, stacked)
    note_matrix(tallies, equation, track, roles, rows)
  return [Value(level=Level.DATA)]


def _roles(
  track: Track, contracted: Sequence[int], stacked: Sequence[int]
) -> list[str]:
  roles = ['out'] * len(track.dims)
  for axis in contracted:
    roles[axis] = 'in'
  for axis in stacked:
    roles[axis] = 'stacked'
  return roles


def convolution(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """An image and a kernel."""
  image, kernel = inputs
  tallies.note_combined([image])
  given: list[Track] = []
  for track in image.given:
    given += tallies.outputs.after_convolution(equation, track)
  if equation.params['batch_group_count'] == 1:  # else the gradient of one
    for track in kernel.tracks:
      given += _given_by_kernel(tallies, equation, track)
  return [Value(level=Level.DATA, given=distinct(given))]


def _given_by_kernel(
  tallies: Tallies, equation: Any, track: Track
) -> tuple[Track, ...]:
  """Notes what a convolution says of its kernel; of what that gives."""
  params, shape = equation.params, equation.outvars[0].aval.shape
  numbers, groups = params['dimension_numbers'], params['feature_group_count']
  image, kernel = (list(var.aval.shape) for var in equation.invars)
  out = numbers.rhs_spec[0]
  rows = math.prod(shape) // kernel[out]
  roles = ['in'] * len(track.dims)
  roles[out] = 'out'
  features = track.dims[out]
  if groups > 1:
    # The outer part of the axis out says the group.
    kernel[out : out + 1] = [groups, kernel[out] // groups]
    roles[out : out + 1] = ['stacked', 'out']
    by_group = reshaped(track, tuple(kernel))
    if by_group is None:
      return ()
    track = by_group
    features = track.dims[out] + track.dims[out + 1]
    is_depthwise = groups == image[numbers.lhs_spec[1]]
    if is_depthwise and not _is_batched(track, roles):
      tallies.of(track).is_depthwise = True
      return ()
  use = note_matrix(tallies, equation, track, roles, rows)
  dims = [(Digit(FREE, 0, n),) for n in shape]
  dims[numbers.out_spec[1]] = features
  return given_by(tallies, use, dims)


def _is_batched(track: Track, roles: Sequence[str]) -> bool:
  """Whether a convolution's groups are layers that vmap puts side by side."""
  stacked, outputs = (
    {d.axis for d in digits_of(track, roles, role) if d.size > 1}
    for role in ('stacked', 'out')
  )
  return bool(outputs) and not stacked & outputs

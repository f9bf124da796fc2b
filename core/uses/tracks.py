"""Where the axes of a parameter are in a value, as a jaxpr moves them about."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

FREE = -1  # of no axis: the parameter is broadcast along it
JOINT = -2  # of no axis: the parameter lies beside others along it
# Of a product of parameters: an axis of the others, that this parameter reaches
# through axes over which the product was contracted; below it, by their number.
THROUGH = -3


class Digit(NamedTuple):
  """A part of an index along an axis: index // stride % size.

  An axis of a parameter is one digit, until a reshape splits it.
  """

  axis: int  # of the parameter, or one of the three above
  stride: int  # 0 if unknown: part of the axis was cut out
  size: int


class Track(NamedTuple):
  """Where the axes of a parameter are in a value."""

  leaf: int
  dims: tuple[tuple[Digit, ...], ...]  # of each axis of the value
  stacked: tuple[Digit, ...] = ()  # over which it is scanned
  is_pure: bool = True  # combined with nothing but parameters and numbers
  is_joined: bool = False  # put before or after what is no parameter
  # Of a product of parameters: the axes over which it was contracted, those
  # that both factors have, those of its first factor, and whether the product
  # was added to a matrix.
  bound: tuple[tuple[Digit, ...], ...] = ()
  shared: tuple[Digit, ...] = ()
  first: tuple[Digit, ...] = ()
  is_change: bool = False

  @property
  def is_layer(self) -> bool:
    """Whether it can be a layer's matrix by itself, and not what goes in."""
    wide = [d for dim in self.dims for d in dim if d.size > 1]
    is_own = all(d.axis != FREE for d in wide)
    return self.is_pure and is_own and len(wide) > 1


def sizes_of(track: Track) -> tuple[int, ...]:
  """The shape of the value that a track is of."""
  return tuple(math.prod(d.size for d in dim) for dim in track.dims)


def digits_of(track: Track, roles: Sequence[str], role: str) -> list[Digit]:
  """Those of the axes of a value that have this role."""
  return [d for dim, r in zip(track.dims, roles) if r == role for d in dim]


def distinct(tracks: Iterable[Track]) -> tuple[Track, ...]:
  """The tracks, each once."""
  return tuple(dict.fromkeys(tracks))


def without(track: Track, *axes: int) -> Track:
  """Of one row along these axes of a value: they are stacked."""
  numbered = list(enumerate(track.dims))
  digits = tuple(
    digit
    for i, dim in numbered
    if i in axes
    for digit in dim
    if digit.axis >= 0
  )
  dims = tuple(dim for i, dim in numbered if i not in axes)
  return track._replace(dims=dims, stacked=track.stacked + digits)


def beside(track: Track, after: Track) -> Track:
  """Of a result in which a parameter is the same along the other's axes."""
  dims = (
    tuple(d if d.axis >= 0 else Digit(FREE, 0, d.size) for d in dim)
    for dim in after.dims
  )
  return track._replace(dims=tuple(dims))


def part_of(dim: tuple[Digit, ...], size: int) -> tuple[Digit, ...]:
  """Of so many entries of an axis."""
  return (Digit(max((d.axis for d in dim), default=FREE), 0, size),)


def cut(track: Track, shape: Sequence[int]) -> Track:
  """Of fewer entries along some axes."""
  pairs = zip(track.dims, sizes_of(track), shape)
  return track._replace(
    dims=tuple(dim if n == m else part_of(dim, m) for dim, n, m in pairs)
  )


def product_of(
  track: Track,
  side: int,
  contracted: Sequence[int],
  batch: Sequence[int],
  sizes: list[list[int]],
) -> Track:
  """Of a product of two parameters, one of which this is of."""
  gone = tuple(d for i in contracted for d in track.dims[i])
  rest = [
    dim
    for i, dim in enumerate(track.dims)
    if i not in contracted and i not in batch
  ]
  numbers = {THROUGH - d.axis for d in gone if d.axis <= THROUGH}
  bound = track.bound
  if not numbers:
    # What the other has is reached through the axes that are gone.
    axis = THROUGH - len(bound)
    bound = (*bound, gone)
  elif len(numbers) == 1 and all(d.axis <= THROUGH for d in gone):
    axis = THROUGH - numbers.pop()  # as it was through others before
  else:
    axis = FREE
  others: list[tuple[Digit, ...]] = [
    (Digit(axis, 0, n),) for n in sizes[1 - side]
  ]
  together = [track.dims[i] for i in batch]
  first, second = (others, rest) if side else (rest, others)
  return track._replace(
    dims=(*together, *first, *second),
    bound=bound,
    shared=tuple(d for dim in together for d in dim),
    first=tuple(d for dim in first for d in dim),
  )


def stretched(track: Track, shape: Sequence[int]) -> Track | None:
  """Of an elementwise result, along whose axes of size 1 it is repeated."""
  old = sizes_of(track)
  pairs = list(zip(old, shape))
  if len(old) != len(shape) or any(n not in (1, m) for n, m in pairs):
    return None
  dims = (
    dim if n == m else (Digit(FREE, 0, m),)
    for dim, (n, m) in zip(track.dims, pairs)
  )
  return track._replace(dims=tuple(dims))


def reshaped(track: Track, shape: tuple[int, ...]) -> Track | None:
  """Of the same entries in another shape; None if it mixes axes."""
  digits = [d for dim in track.dims for d in dim if d.size > 1]
  dims = []
  for size in shape:
    dim = []
    while size > 1:
      if not digits:
        return None
      axis, stride, extent = digit = digits.pop(0)
      if size % extent == 0:
        dim.append(digit)
        size //= extent
      elif extent % size == 0:
        inner = extent // size
        dim.append(Digit(axis, stride * inner, size))
        digits.insert(0, Digit(axis, stride, inner))
        size = 1
      else:
        return None
    dims.append(tuple(dim))
  return track._replace(dims=tuple(dims))


# Of an equation, a track of one of its inputs, the shape of the output, and the
# places of both: the track of the output, or None if it is lost.
_Move = Callable[[Any, Track, tuple[int, ...]], Track | None]


def _at_reshape(
  equation: Any, track: Track, shape: tuple[int, ...]
) -> Track | None:
  order = equation.params['dimensions']  # transposed before, by jax.vmap
  if order is not None:
    track = track._replace(dims=tuple(track.dims[i] for i in order))
  return reshaped(track, shape)


def _at_transpose(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  order = equation.params['permutation']
  return track._replace(dims=tuple(track.dims[i] for i in order))


def _at_squeeze(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  gone = {i % len(track.dims) for i in equation.params['dimensions']}
  rest = (dim for i, dim in enumerate(track.dims) if i not in gone)
  return track._replace(dims=tuple(rest))


def _at_broadcast(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  old = sizes_of(track)
  dims: list[tuple[Digit, ...]] = [(Digit(FREE, 0, n),) for n in shape]
  for i, axis in enumerate(equation.params['broadcast_dimensions']):
    if old[i] == shape[axis]:
      dims[axis] = track.dims[i]
  return track._replace(dims=tuple(dims))


def _at_tile(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  pairs = zip(track.dims, equation.params['reps'])
  dims = ((Digit(FREE, 0, n), *dim) if n > 1 else dim for dim, n in pairs)
  return track._replace(dims=tuple(dims))


def _at_split(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  return cut(track, shape)


def _at_concatenate(
  equation: Any, track: Track, shape: tuple[int, ...]
) -> Track:
  """Beside others, along an axis of its own or a new one."""
  dims = list(track.dims)
  for i, (n, m) in enumerate(zip(sizes_of(track), shape)):
    if n != m:
      dims[i] = part_of(dims[i], m)
      if n == 1 and dims[i][0].axis == FREE:
        dims[i] = (Digit(JOINT, 0, m),)
  return track._replace(dims=tuple(dims))


def _at_stack(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  axis = equation.params['axis']
  dims = list(track.dims)
  dims.insert(axis, (Digit(JOINT, 0, shape[axis]),))
  return track._replace(dims=tuple(dims))


def _at_unstack(equation: Any, track: Track, shape: tuple[int, ...]) -> Track:
  axis = equation.params['axis']
  if sum(n > 1 for n in shape) > 1:
    return without(track, axis)
  dims = (dim for i, dim in enumerate(track.dims) if i != axis)
  return track._replace(dims=tuple(dims))


# Equations of which each input is a part of the output.
JOINS = {'concatenate', 'stack'}

MOVES: dict[str, _Move] = {
  'reshape': _at_reshape,
  'transpose': _at_transpose,
  'squeeze': _at_squeeze,
  'broadcast_in_dim': _at_broadcast,
  'concatenate': _at_concatenate,
  'pad': _at_split,
  'split': _at_split,
  'stack': _at_stack,
  'unstack': _at_unstack,
  'tile': _at_tile,
}

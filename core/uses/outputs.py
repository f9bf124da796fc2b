"""Where the axes go that a layer has given: on as features, or side by side.

A layer may give several axes, as attention's queries do, (heads, head_dim). So
does an ensemble whose members have one input: jax.vmap makes one dot_general of
all members' first layers. Only what follows tells these apart.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .tracks import (
  FREE,
  MOVES,
  Digit,
  Track,
  distinct,
  part_of,
  product_of,
  sizes_of,
  stretched,
)


class Fate(enum.Enum):
  """What becomes of an axis that a layer has given."""

  FEATURE = enum.auto()  # contracted with another layer's parameter
  MEMBER = enum.auto()  # a batch axis of another layer's parameter
  SCORE = enum.auto()  # contracted with data, as attention's head_dim
  WEIGHTED = enum.auto()  # contracted with weights that sum to 1
  MIXED = enum.auto()  # as SCORE, where another axis of the layer is kept
  PART = enum.auto()  # cut, as by rotary positions
  ROW = enum.auto()  # one entry is taken: outputs that lie in one array


_Mover = Callable[[int, Track, 'tuple[int, ...]'], 'Track | None']
_Fates = dict[int, set[Fate]]  # by the parameter's axis
_REDUCTIONS = {
  f'reduce_{name}' for name in 'sum max min prod and or xor'.split()
} | {'argmax', 'argmin'}


class Outputs:
  """Follows what layers have given; a track's leaf is a number of a use."""

  def __init__(self) -> None:
    self._numbers: dict[Any, int] = {}
    self._fates: list[_Fates] = []

  def fates(self, use: Any) -> _Fates:
    """Of the axes that a use has given; empty where it was not followed."""
    number = self._numbers.get(use)
    return {} if number is None else self._fates[number]

  def given(self, use: Any, dims: Sequence[tuple[Digit, ...]]) -> Track:
    """Of what a use gives, where the parameter's axes are in it."""
    number = self._numbers.setdefault(use, len(self._numbers))
    if number == len(self._fates):
      self._fates.append({})
    return Track(number, tuple(dims))

  def _note(
    self, track: Track, dims: Iterable[tuple[Digit, ...]], fate: Fate
  ) -> None:
    for dim in dims:
      for digit in dim:
        if digit.axis >= 0 and digit.size > 1:
          self._fates[track.leaf].setdefault(digit.axis, set()).add(fate)

  def after(
    self, equation: Any, tracks: Sequence[tuple[Track, ...]]
  ) -> list[tuple[Track, ...]]:
    """Of an equation's outputs, from those of its inputs.

    Not of calls, loops, dot_generals and convolutions.
    """
    moves = self._moves(equation)
    return [
      distinct(
        moved
        for i, of_input in enumerate(tracks)
        for track in of_input
        if (moved := moves(i, track, out.aval.shape))
        and sizes_of(moved) == out.aval.shape
      )
      for out in equation.outvars
    ]

  def _moves(self, equation: Any) -> _Mover:
    """From the place of an input, its track and the shape of the output."""
    name, params = equation.primitive.name, equation.params

    def elementwise(
      i: int, track: Track, shape: tuple[int, ...]
    ) -> Track | None:
      return stretched(track, shape)

    def moved(i: int, track: Track, shape: tuple[int, ...]) -> Track | None:
      if name in ('split', 'unstack'):
        axis = params['axis']
        is_row = name == 'unstack' or shape[axis] == 1
        fate = Fate.ROW if is_row else Fate.PART
        self._note(track, track.dims[axis : axis + 1], fate)
      result = MOVES[name](equation, track, shape) if not i else None
      return result and result._replace(stacked=())

    def joined(i: int, track: Track, shape: tuple[int, ...]) -> Track | None:
      return MOVES[name](equation, track, shape)

    def reduced(i: int, track: Track, shape: tuple[int, ...]) -> Track | None:
      kept = (d for j, d in enumerate(track.dims) if j not in params['axes'])
      return track._replace(dims=tuple(kept))

    def sliced(i: int, track: Track, shape: tuple[int, ...]) -> Track | None:
      return None if i else self._cut(track, shape)

    def gathered(i: int, track: Track, shape: tuple[int, ...]) -> Track | None:
      if i:
        return None
      numbers, sizes = params['dimension_numbers'], params['slice_sizes']
      cut = self._cut(track, sizes)
      batching = getattr(numbers, 'operand_batching_dims', ())
      gone = (*numbers.collapsed_slice_dims, *batching)
      rest = [dim for j, dim in enumerate(cut.dims) if j not in gone]
      dims: list[tuple[Digit, ...]] = [(Digit(FREE, 0, n),) for n in shape]
      for place, dim in zip(numbers.offset_dims, rest):
        dims[place] = dim
      return cut._replace(dims=tuple(dims))

    if name in ('concatenate', 'stack'):
      return joined
    if name in MOVES:
      return moved
    if name in _REDUCTIONS:
      return reduced
    if name in ('slice', 'dynamic_slice'):
      return sliced
    return gathered if name == 'gather' else elementwise

  def _cut(self, track: Track, sizes: Sequence[int]) -> Track:
    pairs = list(zip(track.dims, sizes_of(track), sizes))
    self._note(track, (dim for dim, n, m in pairs if n > m > 1), Fate.PART)
    self._note(track, (dim for dim, n, m in pairs if n > m == 1), Fate.ROW)
    dims = (dim if n == m else part_of(dim, m) for dim, n, m in pairs)
    return track._replace(dims=tuple(dims))

  def after_dot(
    self,
    track: Track,
    side: int,
    contracted: Sequence[int],
    batch: Sequence[int],
    sizes: list[list[int]],
    is_layer: bool,
    is_weights: bool,
  ) -> tuple[Track, ...]:
    """Of a dot_general's output, from that of one side.

    Args:
      track: of the value on this side.
      side: 0 or 1.
      contracted, batch: axes of the value.
      sizes: of the axes that are kept, of either side.
      is_layer: whether the other side is a layer's parameter.
      is_weights: whether the other side is weights that sum to 1.
    """
    gone = [track.dims[i] for i in contracted]
    together = [track.dims[i] for i in batch]
    kept = [
      dim
      for i, dim in enumerate(track.dims)
      if i not in contracted and i not in batch
    ]
    if is_layer:
      self._note(track, gone, Fate.FEATURE)
      self._note(track, together, Fate.MEMBER)
    elif any(d.axis >= 0 and d.size > 1 for dim in kept for d in dim):
      self._note(track, gone, Fate.WEIGHTED if is_weights else Fate.MIXED)
    else:
      self._note(track, gone, Fate.SCORE)
    after = product_of(track, side, contracted, batch, sizes)
    return _if_any(Track(track.leaf, after.dims))

  def after_convolution(self, equation: Any, track: Track) -> tuple[Track, ...]:
    """Of a convolution's output, from that of the image."""
    params = equation.params
    numbers = params['dimension_numbers']
    shape = equation.outvars[0].aval.shape
    groups = params['feature_group_count']
    if params['batch_group_count'] > 1:
      return ()
    channels = list(track.dims[numbers.lhs_spec[1]])
    by_group: list[Digit] = []
    size = 1
    while channels and size < groups and groups % channels[0].size == 0:
      size *= channels[0].size
      by_group.append(channels.pop(0))
    if size != groups:
      channels, by_group = [*by_group, *channels], []
    self._note(track, [tuple(by_group)], Fate.MEMBER)
    self._note(track, [tuple(channels)], Fate.FEATURE)
    dims: list[tuple[Digit, ...]] = [(Digit(FREE, 0, n),) for n in shape]
    for old, new in zip(numbers.lhs_spec, numbers.out_spec):
      if sizes_of(track)[old] == shape[new]:
        dims[new] = track.dims[old]
    out = numbers.out_spec[1]
    inner = (Digit(FREE, 0, shape[out] // groups),)
    dims[out] = (*by_group, *inner) if by_group else dims[out]
    if not by_group:
      dims[out] = (Digit(FREE, 0, shape[out]),)
    return _if_any(track._replace(dims=tuple(dims)))


def _if_any(track: Track) -> tuple[Track, ...]:
  """Of a value, if it has any axis of the parameter left."""
  is_any = any(d.axis >= 0 and d.size > 1 for dim in track.dims for d in dim)
  return (track,) if is_any else ()


_Roles = dict[Digit, str]


def resolved(roles: _Roles, fates: _Fates, is_mixture: bool) -> _Roles | None:
  """The roles of a use's axes, by what becomes of those that it gives.

  Args:
    roles: of the axes of one use, of several that are 'out'.
    fates: of these.
    is_mixture: whether what goes in are weights that sum to 1.

  Returns:
    None where nothing tells whether an axis holds layers or what one gives.
  """
  wide = {d.axis for d, r in roles.items() if r == 'out' and d.size > 1}
  if len(wide) < 2:
    return roles
  new: dict[int, str] = {}
  for axis in wide:
    of_axis = fates.get(axis, set())
    if Fate.FEATURE in of_axis:
      new[axis] = 'out'
    elif of_axis & {Fate.MEMBER, Fate.WEIGHTED}:
      new[axis] = 'stacked'
    elif Fate.MIXED in of_axis:
      new[axis] = 'in' if is_mixture else 'out'
    elif of_axis:
      new[axis] = 'out'
  open_axes = wide - set(new)
  are_told = {'in', 'stacked'} & set(new.values())
  is_used = {Fate.FEATURE, Fate.ROW} & set().union(*fates.values())
  if are_told or is_used and len(open_axes) == 1:
    # The other axes are what each member gives. Layers side by side would be a
    # batch where the next layer contracts what each of them gives.
    new.update(dict.fromkeys(open_axes, 'out'))
  elif open_axes:
    return None
  if 'out' not in new.values():
    return None
  was_in = 'stacked' if 'in' in new.values() else 'in'
  return {
    digit: was_in
    if role == 'in'
    else new[digit.axis]
    if role == 'out' and digit.axis in new
    else role
    for digit, role in roles.items()
  }

"""The equations that take rows of a parameter: of a table, or of a stack.

What is chosen by one index at a time is stacked in that axis. What is looked up
by an array of indices, or multiplied by a comparison (a one-hot code), is a
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .tallies import Tallies
from .tracks import FREE, Digit, Track, beside, part_of, sizes_of
from .values import Level, Value


def gather(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """Slices at one index, or at each of an array of them."""
  numbers = equation.params['dimension_numbers']
  sizes = equation.params['slice_sizes']
  operand, indices = (var.aval.shape for var in equation.invars[:2])
  shape = equation.outvars[0].aval.shape
  collapsed = numbers.collapsed_slice_dims
  batching = getattr(numbers, 'operand_batching_dims', ())
  # An array of one index looks up, as one of many does; a number does not.
  is_one_slice = len(indices) < 2 and math.prod(indices) == len(
    numbers.start_index_map
  )
  rest = [i for i in range(len(operand)) if i not in (*collapsed, *batching)]
  value, tracks = inputs[0], []
  for track in value.tracks if value.level < Level.DATA else ():
    if is_one_slice:
      _note_taken(tallies, track, sizes)
    row = _row(tallies, track, sizes, is_one_slice, batching)
    if row is None:
      continue
    dims: list[tuple[Digit, ...]] = [(Digit(FREE, 0, n),) for n in shape]
    for place, axis in zip(numbers.offset_dims, rest):
      dims[place] = row.dims[axis]
    tracks.append(row._replace(dims=tuple(dims)))
  return [Value(tuple(tracks), value.level if tracks else Level.DATA)]


def dynamic_slice(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """A slice at an index that is computed."""
  sizes = equation.params['slice_sizes']
  for track in inputs[0].tracks:
    _note_taken(tallies, track, sizes)
  return [_one_slice(tallies, inputs[0], sizes)]


def fixed_slice(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """A slice at an index that is written down; no row is looked up by it."""
  sizes = equation.outvars[0].aval.shape
  return [_one_slice(tallies, inputs[0], sizes)]


def rows_by_code(tallies: Tallies, track: Track, product: Track) -> list[Track]:
  """Of rows that are chosen by a one-hot code: of a table, or of a stack.

  Args:
    tallies: to note it in.
    track: of the parameter, before.
    product: of the parameter times the code.
  """
  tally = tallies.of(track)
  own = [d for dim in product.dims for d in dim if d.axis >= 0 and d.size > 1]
  if len({d.axis for d in own}) < 2 or track.bound:
    tally.is_table = True
    return []
  tally.is_chosen = True
  row = beside(track, product)
  return [row._replace(stacked=track.stacked + product.bound[-1])]


def _note_taken(tallies: Tallies, track: Track, sizes: Sequence[int]) -> None:
  if sum(n > 1 for n in sizes) == 1 and not track.bound:
    tallies.of(track).is_taken = True


def _one_slice(tallies: Tallies, value: Value, sizes: Sequence[int]) -> Value:
  if value.level == Level.DATA:
    return Value(level=Level.DATA)
  rows = (_row(tallies, t, sizes, True, ()) for t in value.tracks)
  return value._replace(tracks=tuple(t for t in rows if t))


def _row(
  tallies: Tallies,
  track: Track,
  sizes: Sequence[int],
  is_one_slice: bool,
  batching: Sequence[int],
) -> Track | None:
  """Of slices of these sizes, one or an array of them.

  A slice of size 1 of what has two or more other axes is a layer of a stack.

  Returns:
    None if they are of a table, or chosen by an axis of another factor of a
    product.
  """
  old = sizes_of(track)
  are_rows = [n == 1 and n != m for n, m in zip(sizes, old)]
  others = [n for i, n in enumerate(sizes) if n > 1 and i not in batching]
  tally = tallies.of(track)
  if not is_one_slice and any(are_rows):
    pairs = zip(track.dims, are_rows)
    if not any(d.axis >= 0 for dim, is_row in pairs if is_row for d in dim):
      tally.is_combined = True  # by the rows of another factor of a product
      return None
    if len(others) < 2:
      tally.is_table = True
      return None
    tally.is_chosen = True
  stacked = track.stacked
  dims: list[tuple[Digit, ...]] = []
  for dim, n, m, is_row in zip(track.dims, sizes, old, are_rows):
    if is_row and len(others) > 1:
      stacked += tuple(d for d in dim if d.axis >= 0)
      dims.append(())
    else:
      dims.append(dim if n == m else part_of(dim, n))
  return track._replace(dims=tuple(dims), stacked=stacked)

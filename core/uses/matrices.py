"""Notes that an equation uses a parameter as a matrix, and what that gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tallies import Roles, Tallies, Use
from .tracks import FREE, THROUGH, Digit, Track, digits_of
from .values import Level


def note_matrix(
  tallies: Tallies,
  equation: Any,
  track: Track,
  roles: Sequence[str],
  rows: int,
  is_mixture: bool = False,
) -> Use | None:
  """Notes a use as a matrix, by the role of each axis of the value.

  Args:
    tallies: to note it in.
    equation: the use.
    track: of the parameter.
    roles: 'in', 'out' or 'stacked', of each axis of the value.
    rows: to how many the matrix is applied.
    is_mixture: whether it is applied to weights that sum to 1.

  Returns:
    The use, if it is the first to be noted of this equation.
  """
  use: Roles = dict.fromkeys(track.stacked, 'stacked')
  through: dict[int, set[str]] = {}
  free: set[str] = set()
  tally = tallies.of(track)
  for dim, role in zip(track.dims, roles):
    for digit in dim:
      if digit.axis >= 0:
        use[digit] = role
      elif digit.axis <= THROUGH and digit.size > 1:
        through.setdefault(THROUGH - digit.axis, set()).add(role)
      elif digit.axis == FREE and digit.size > 1:
        free.add(role)
  own = {role for digit, role in use.items() if digit.size > 1}
  is_whole = {'in', 'out'} <= own
  if is_whole and track.is_joined:
    # A prefix of what goes in, or the part of a layer that is trained.
    tally.is_unclear = True
    return None
  if ('in' in free or 'out' in free) and not tally.is_chosen:
    # Broadcast along an axis of the layer: it is what goes in, or the layer is
    # repeated.
    tally.is_combined = True
    tally.is_unclear |= is_whole and 'in' not in free
    return None
  for number, of_others in through.items():
    sides = {'stacked'} if is_whole else of_others - {'stacked'}
    if len(sides) != 1:
      tally.is_combined = True  # the weights of a mixture of matrices
      return None
    use.update(dict.fromkeys(track.bound[number], *sides))
  key = track.leaf, id(equation)
  new = Use(rows, use, key, is_mixture, tallies.num_backward)
  tally.matrices.setdefault(key, new)
  return new


def note_product(
  tallies: Tallies,
  equation: Any,
  track: Track,
  roles: list[str],
  rows: int,
  level: int,
) -> Use | None:
  """Notes the use of a product of parameters as a matrix.

  In such a product the second factor of the dot_general is the layer. Both are
  the layer where the product is applied to a batch, is added to a matrix (a
  low-rank change), or is contracted with data along an axis of the first. Where
  it mixes matrices, as by numbers of a basis, these are a stack.

  Args:
    tallies, equation, track, roles, rows: see `note_matrix`.
    level: of what the product is applied to.
  """
  by_role = {
    role: {d for d in digits_of(track, roles, role) if d.size > 1}
    for role in ('in', 'out', 'stacked')
  }
  is_mixture = all(
    any(d.axis >= 0 for d in by_role[role]) for role in ('in', 'out')
  )
  if by_role['stacked'] - set(track.shared) and not is_mixture:
    return None  # queries that are learnt, by heads
  is_usual = by_role['in'] <= set(track.first)
  is_layer = is_usual or is_mixture or track.is_change
  if not is_layer and level == Level.DATA:
    # A product of two weights (out, in), or learnt queries times theirs.
    tallies.of(track).is_unclear = True
    return None
  return note_matrix(tallies, equation, track, roles, rows)


def given_by(
  tallies: Tallies, use: Use | None, dims: Sequence[tuple[Digit, ...]]
) -> tuple[Track, ...]:
  """Of what a use gives, if the parameter has several axes in it.

  Args:
    tallies: whose outputs follow it.
    use: None for no use, which gives nothing.
    dims: of the value that is given.
  """
  if use is None:
    return ()
  are_given = {d for d, r in use.roles.items() if r == 'out' and d.size > 1}
  own = [
    tuple(d if d in are_given else Digit(FREE, 0, d.size) for d in dim)
    for dim in dims
  ]
  axes = {d.axis for dim in own for d in dim} - {FREE}
  return (tallies.outputs.given(use.key, own),) if len(axes) > 1 else ()

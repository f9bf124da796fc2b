"""The equations that leave a parameter a parameter: moved, joined, combined.

On the way to its use a parameter may be reshaped, transposed, broadcast, cast,
sliced or joined to others, combined with other parameters, with constants and
with numbers made of the parameter itself (weight normalisation and
standardisation). Once it is combined with what a layer has given, it has no
other use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tallies import Tallies
from .tracks import JOINS, MOVES, distinct, stretched
from .values import Level, Value, makes_weights, untracked

# Equations whose output has the axes of an input; `rev` only turns some round.
ELEMENTWISE = frozenset(
  'abs add add_any atan2 cbrt ceil clamp convert_element_type copy copy_p cos '
  'cosh div erf erf_inv erfc exp exp2 expm1 floor integer_pow '
  'layout_constraint log log1p logistic max mesh_cast min mul name neg '
  'nextafter pcast pow pvary '
  'reduce_precision rem rev round rsqrt select_n sharding_constraint sign sin '
  'sinh sqrt square stop_gradient sub tan tanh'.split()
)
_SUMS = ('add', 'add_any', 'sub')


def elementwise(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """The value of an elementwise operation's output."""
  name, shape = equation.primitive.name, equation.outvars[0].aval.shape
  level = max((v.level for v in inputs), default=Level.CONSTANT)
  is_comparison = name == 'convert_element_type' and inputs[0].is_comparison
  is_weights = makes_weights(equation, inputs)
  if level >= Level.CONSTANT or sum(v.level > 0 for v in inputs) > 1:
    tallies.note_combined(inputs)
  if level == Level.DATA:
    return [Value((), level, is_comparison, is_weights)]
  is_pure = level <= Level.PARAMETER
  tracks = []
  for i, value in enumerate(inputs):
    is_change = name in _SUMS and any(
      v.level == Level.CONSTANT
      or any(t.is_layer and not t.bound for t in v.tracks)
      for j, v in enumerate(inputs)
      if j != i
    )
    for track in value.tracks:
      if after := stretched(track, shape):
        tracks.append(
          after._replace(
            is_pure=track.is_pure and is_pure,
            is_change=track.is_change or bool(track.bound) and is_change,
          )
        )
  return [Value(distinct(tracks), level, is_comparison, is_weights)]


def movement(
  tallies: Tallies, equation: Any, inputs: Sequence[Value]
) -> list[Value]:
  """The values of the outputs of an equation that moves axes, or joins."""
  name = equation.primitive.name
  outputs = untracked(equation, inputs)
  parts = inputs if name in JOINS else inputs[:1]
  if any(v.level == Level.DATA for v in parts):
    tallies.note_combined(inputs)
    return outputs
  if not any(v.tracks for v in parts):
    return outputs
  # A learnt token that is put before those of the batch is no layer.
  is_pure = all(v.tracks for v in parts)
  is_joined = any(v.level == Level.CONSTANT for v in parts)
  move = MOVES[name]
  for i, out in enumerate(equation.outvars):
    tracks = [
      after._replace(
        is_pure=after.is_pure and is_pure,
        is_joined=after.is_joined or is_joined,
      )
      for v in parts
      for track in v.tracks
      if (after := move(equation, track, out.aval.shape))
    ]
    outputs[i] = outputs[i]._replace(tracks=distinct(tracks))
  return outputs

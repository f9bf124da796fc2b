"""What a parameter is: a matrix, with its axes in and out, or no matrix."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence

import jax

from .checks import check

# No layer is as wide as this; a table of words may be longer.
_LONGEST = 2**16


class Kind(enum.Enum):
  """What a parameter does; only a matrix has axes in and out."""

  MATRIX = 'matrix'  # maps what goes in to what comes out
  TABLE = 'table'  # rows that are looked up, as an embedding's
  DEPTHWISE = 'depthwise'  # a filter for each channel by itself
  VECTOR = 'vector'  # the rest: biases, scales, positions, single columns


@dataclasses.dataclass(frozen=True)
class Form:
  """What a parameter is, and which of its axes go in, out, or are stacked.

  Every axis of a matrix is in exactly one of the three tuples. The other kinds
  have empty ones.

  Example: weights (experts, out, in) of which each expert's is a matrix.

    >>> form = Form(Kind.MATRIX, inputs=(2,), outputs=(1,), stacked=(0,))
    >>> form.sides((8, 64, 16))
    (8, 16, 64)
  """

  kind: Kind
  inputs: tuple[int, ...] = ()
  outputs: tuple[int, ...] = ()
  stacked: tuple[int, ...] = ()
  # The shape that the axes count in, where one axis of the parameter holds
  # several: a grouped convolution's outputs are (groups, outputs of each).
  split: tuple[int, ...] = ()

  @property
  def is_matrix(self) -> bool:
    return self.kind is Kind.MATRIX

  def sides(self, shape: Sequence[int]) -> tuple[int, int, int]:
    """(matrices, fan in, fan out) of a matrix of this form.

    Raises:
      ValueError: if the form is no matrix, or not that of an array of this shape.
    """
    check(self.is_matrix, 'form', self, 'that of a matrix')
    shape = tuple(shape)
    axes = self.split or shape
    places = sorted(self.stacked + self.inputs + self.outputs)
    is_whole = places == list(range(len(axes)))
    fits = is_whole and math.prod(axes) == math.prod(shape)
    check(fits, 'shape', shape, f'one with the axes of {self}')
    stacked, fan_in, fan_out = (
      math.prod(axes[i] for i in group)
      for group in (self.stacked, self.inputs, self.outputs)
    )
    return stacked, fan_in, fan_out

  def widening(self, shape: Sequence[int]) -> float:
    """max(1, sqrt(out / in)): what U V^T of a matrix is multiplied by.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
    networks".
    """
    _, fan_in, fan_out = self.sides(shape)
    return math.sqrt(max(1.0, fan_out / max(fan_in, 1)))


VECTOR = Form(Kind.VECTOR)
TABLE = Form(Kind.TABLE)
DEPTHWISE = Form(Kind.DEPTHWISE)


def matrix(
  inputs: Sequence[int],
  outputs: Sequence[int],
  stacked: Sequence[int] = (),
  split: Sequence[int] = (),
) -> Form:
  """The form of a matrix."""
  axes = map(tuple, (inputs, outputs, stacked, split))
  return Form(Kind.MATRIX, *axes)


def as_stack(array: jax.Array, form: Form) -> jax.Array:
  """A parameter as its matrices: shape=(matrices, fan in, fan out)."""
  sides = form.sides(array.shape)
  order = form.stacked + form.inputs + form.outputs
  return array.reshape(form.split or array.shape).transpose(order).reshape(sides)


def from_stack(
  stack: jax.Array, form: Form, shape: Sequence[int]
) -> jax.Array:
  """The parameter of this shape whose matrices these are; undoes `as_stack`."""
  axes = form.split or tuple(shape)
  order = form.stacked + form.inputs + form.outputs
  back = sorted(range(len(order)), key=order.__getitem__)
  ordered = stack.reshape([axes[i] for i in order])
  return ordered.transpose(back).reshape(shape)


def by_shape(shape: Sequence[int]) -> Form:
  """A guess at a parameter's form, from its shape alone.

  The last axis goes out and the others go in, as flax has it of dense layers
  and convolutions (height, width, in, out). Three axes may also be attention's,
  (d, heads, head_dim) or (heads, head_dim, d). They are where one of these is
  square (heads * head_dim = d), which holds in most models; the first of the
  two where both are. A filter of a convolution over time (width, in, out) that
  passes for attention's is the price: (3, 8, 24) is taken for a kernel `out`.
  That changes nothing there, since its axes in and out are the same ones; of
  (24, 3, 8), in by heads by head_dim, the axes 1 and 2 go out.

  A layer that is stacked in a first axis, and weights (out, in), cannot be told
  from these. An array with one side of 1, or longer than 65,536, is no matrix.
  """
  shape = tuple(shape)
  wide = [i for i, size in enumerate(shape) if size > 1]
  if len(wide) < 2:
    return VECTOR
  last = len(shape) - 1
  outputs: tuple[int, ...] = (last,)
  if len(shape) == 3 and len(wide) == 3 and shape[0] == shape[1] * shape[2]:
    outputs = (1, 2)
  inputs = tuple(i for i in range(len(shape)) if i not in outputs)
  form = matrix(inputs, outputs)
  _, fan_in, fan_out = form.sides(shape)
  if min(fan_in, fan_out) == 1:
    return VECTOR
  return TABLE if max(fan_in, fan_out) > _LONGEST else form

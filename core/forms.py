"""What a parameter is: a matrix, with its axes in and out, or no matrix."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.tree_util import keystr, tree_flatten_with_path

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
  have empty ones, or a ValueError is raised.

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

  def __post_init__(self) -> None:
    axes = self.inputs + self.outputs + self.stacked + self.split
    must_be = f'without axes, as Form({self.kind}) is'
    check(self.is_matrix or not axes, 'form', self, must_be)

  @property
  def is_matrix(self) -> bool:
    return self.kind is Kind.MATRIX

  def sides(self, shape: Sequence[int]) -> tuple[int, int, int]:
    """(matrices, fan in, fan out) of a matrix of this form.

    Raises:
      ValueError: if the form is no matrix, or not that of an array of this
        shape.
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

  def without_first_axis(self) -> Form:
    """The form of one member along the first axis, for example of devices."""
    inputs, outputs, stacked = (
      tuple(i - 1 for i in axes if i)
      for axes in (self.inputs, self.outputs, self.stacked)
    )
    return Form(self.kind, inputs, outputs, stacked, self.split[1:])


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


def as_stack(array: Any, form: Form) -> Any:
  """A parameter as its matrices: shape=(matrices, fan in, fan out)."""
  sides = form.sides(array.shape)
  order = form.stacked + form.inputs + form.outputs
  return (
    array.reshape(form.split or array.shape).transpose(order).reshape(sides)
  )


def from_stack(stack: jax.Array, form: Form, shape: Sequence[int]) -> jax.Array:
  """The parameter of this shape whose matrices these are; undoes `as_stack`."""
  axes = form.split or tuple(shape)
  order = form.stacked + form.inputs + form.outputs
  back = sorted(range(len(order)), key=order.__getitem__)
  array = stack.reshape([axes[i] for i in order])
  return array.transpose(back).reshape(shape)


def by_shape(shape: Sequence[int]) -> Form:
  """A guess at a parameter's form, from its shape alone.

  The last axis goes out and the others go in, as in flax's dense layers,
  (in, out), its convolutions, (height, width, in, out), and what attention
  hands out, (heads, head_dim, d). Of three axes the last two go out where the
  first is their product: these are attention's queries, keys and values,
  (d, heads, head_dim).

  A stack of layers and weights (out, in) cannot be told from these. An array
  with one side of 1, or without entries, is a vector, and one with a side above
  65,536 a table.
  """
  shape = tuple(shape)
  if 0 in shape or sum(size > 1 for size in shape) < 2:
    return VECTOR
  is_head = len(shape) == 3 and shape[0] == shape[1] * shape[2]
  num_inputs = 1 if is_head else len(shape) - 1
  form = _after(num_inputs, len(shape))
  _, fan_in, fan_out = form.sides(shape)
  if min(fan_in, fan_out) == 1:
    return VECTOR
  return TABLE if max(fan_in, fan_out) > _LONGEST else form


def _after(num_inputs: int, num_axes: int) -> Form:
  """So many axes go in, and those after them go out."""
  return matrix(range(num_inputs), range(num_inputs, num_axes))


def by_type(kind: str, shape: Sequence[int]) -> Form:
  """A form by the benchmark's type of a parameter, and its shape.

  Args:
    kind: the type's name, such as 'ATTENTION_Q' or 'LAYER_NORM_SCALE'.
    shape: of the parameter, without an axis of devices.

  Embeddings are tables of vectors. Biases and scales are vectors even where
  they have two axes. Queries, keys and values go out in all axes but the first.
  """
  shape = tuple(shape)
  if 'EMBEDDING' in kind:
    return TABLE
  if 'BIAS' in kind or 'SCALE' in kind:
    return VECTOR
  is_head = kind.removeprefix('ATTENTION_') in ('Q', 'K', 'V', 'QKV', 'KV')
  if is_head and 1 not in (shape[0], math.prod(shape[1:])):
    return _after(1, len(shape))
  guess = by_shape(shape)
  # Any other type is one of a layer, however long.
  return _after(len(shape) - 1, len(shape)) if guess == TABLE else guess


class Source(enum.Enum):
  """Where a form comes from, the best first."""

  USER = 'user'
  TRACE = 'trace'
  TYPES = 'types'
  NAME = 'name'
  SHAPE = 'shape'


class Answer(NamedTuple):
  """What a parameter is, and by what."""

  form: Form
  source: Source
  # By name or shape, where another form would have been possible.
  is_guess: bool


def forms(
  params: Any,
  user: Callable[[str], bool | Form | None] | None = None,
  trace: Sequence[Form | None] | None = None,
  types: Sequence[str] | None = None,
  has_names: bool = False,
) -> tuple[Answer, ...]:
  """What each parameter is, by the best of the sources that answers.

  Args:
    params: tree of anything with a shape, without axes of devices.
    user: path of a parameter, as jax.tree_util.keystr writes it -> its form;
      False for no matrix, which is a table where the best other source says
      so, else a vector; True or None where the other sources shall answer.
    trace: of each leaf, what `uses.forms_of_uses` or `forms_of_init` has told.
    types: of each leaf, the name of the benchmark's type.
    has_names: whether names may tell. In a submission they do not: the
      benchmark's rules speak of shapes and types.

  Returns:
    In the order of the leaves. What has no entries is a vector.

  Raises:
    ValueError: if the user's answer is none of these, or a form that does not
      fit the shape.
  """
  answers = []
  for i, (path, leaf) in enumerate(tree_flatten_with_path(params)[0]):
    name, shape = keystr(path), tuple(leaf.shape)
    of_trace = trace[i] if trace else None
    of_type = by_type(types[i], shape) if types else None
    of_name = _by_name(name) if has_names else None
    found = of_trace, of_type, of_name, by_shape(shape)
    best = next(form for form in found if form)
    answer = None if user is None else user(name)
    sources = _of_user(name, shape, answer, best), *found
    if 0 in shape:  # nothing to orthogonalise
      sources = (None,) * 4 + sources[4:]
    form, source = next((f, s) for f, s in zip(sources, Source) if f)
    is_weak = source in (Source.NAME, Source.SHAPE)
    is_wide = 0 not in shape and sum(size > 1 for size in shape) > 1
    answers.append(Answer(form, source, is_weak and is_wide))
  return tuple(answers)


def guess_among(answers: Sequence[Answer], params: Any) -> str:
  """A sentence that names the parameters whose form is a guess; '' without any.

  Args:
    answers: what `forms` has said.
    params: tree of these parameters.
  """
  paths = [keystr(path) for path, _ in tree_flatten_with_path(params)[0]]
  guesses = [path for path, a in zip(paths, answers) if a.is_guess]
  if not guesses:
    return ''
  more = f' and {len(guesses) - 5} more' if len(guesses) > 5 else ''
  return f'guessed by name or shape: the form of {", ".join(guesses[:5])}{more}'


def form_table(answers: Sequence[Answer], params: Any) -> str:
  """What each parameter is, and by what, as a table to be printed.

  Args:
    answers: what `forms` has said.
    params: tree of these parameters.

  Returns:
    A heading and a line for each parameter; '' without answers.
  """
  if not answers:
    return ''
  rows = [('name', 'shape', 'form', 'by')]
  leaves = tree_flatten_with_path(params)[0]
  for (path, leaf), (form, source, is_guess) in zip(leaves, answers):
    by = source.value + ', a guess' * is_guess
    rows.append((keystr(path), str(tuple(leaf.shape)), _in_words(form), by))
  widths = [max(map(len, column)) for column in zip(*rows)]
  lines = (map(str.ljust, row, widths) for row in rows)
  return '\n'.join('  '.join(line).rstrip() for line in lines)


def _in_words(form: Form) -> str:
  """The kind of a form, and the axes that it has."""
  groups = {
    'in': form.inputs,
    'out': form.outputs,
    'stacked': form.stacked,
    'split': form.split,
  }
  named = [
    f'{name} {", ".join(map(str, axes))}'
    for name, axes in groups.items()
    if axes
  ]
  return '; '.join([form.kind.value, *named])


def _of_user(
  name: str, shape: tuple[int, ...], answer: Any, best: Form
) -> Form | None:
  if isinstance(answer, Form):
    if answer.is_matrix:
      answer.sides(shape)
    return answer
  is_known = answer is None or isinstance(answer, bool)
  must_be = f'a Form, True, False or None for {name}'
  check(is_known, 'matrices', answer, must_be)
  if answer is False:
    return TABLE if best == TABLE else VECTOR
  return None


def _by_name(name: str) -> Form | None:
  """By the last part of a path, the name that flax or equinox gives it."""
  last = re.split(r'[^a-z0-9_]+', name.lower().strip("[]'. "))[-1]
  if 'embed' in last:
    return TABLE
  return VECTOR if last in ('bias', 'scale') else None

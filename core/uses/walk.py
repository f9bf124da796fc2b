"""The forms of parameters, read off the trace of a model that uses them.

Nothing is computed: a function is traced once, and the equations of its jaxpr
are followed from the parameters to their uses.

A dot_general says which axes of a parameter are contracted, and so go in, which
are kept, and so go out, and which are a batch, and so stacked. A convolution
says it by its dimension numbers; a group is a matrix of its own, and a group
for each channel is a depthwise filter. What is scanned, or chosen by one index
at a time, is stacked in that axis. What is looked up by an array of indices, or
multiplied by a comparison (a one-hot code), is a table. What is only added or
multiplied is a vector.

Of several axes that a layer gives, those that a later layer contracts are what
comes out, as attention's heads. Those that later layers only have as a batch
are stacked: an ensemble whose members have one input.

On the way to its use a parameter may be reshaped, transposed, broadcast, cast,
sliced or joined to others, combined with other parameters, with constants and
with numbers made of the parameter itself (weight normalisation and
standardisation). Once it is combined with what a layer has given, it has no
other use.

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
- In a product of two parameters the second factor of the dot_general is the
  layer. Both are the layer where the product is applied to a batch, is added to
  a matrix (a low-rank change), or is contracted with data along an axis of the
  first. Where it mixes matrices, as by numbers of a basis, these are a stack.

What cannot be told, so that the user has to:

- A product that is written as a multiplication and a sum is taken for a vector.
- Where a layer gives several axes, and nothing that follows says of one of
  them whether it holds features or layers, the form is None: a layer (in, a, b)
  at a model's end, or attention whose heads no layer brings together.
- A product of two weights (out, in) that is applied to what a layer has given
  could be learnt queries times theirs: the form is None. So it is of a matrix
  that is repeated along an axis of what comes out, or joined to an array that
  is no parameter: it could be learnt tokens.
- One output that a dot_general sums over many layers makes one layer of them,
  with as many more inputs.
- A matrix whose rows are permuted by an array of indices is taken for a table.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
from jax.interpreters import partial_eval

from ..forms import DEPTHWISE, TABLE, VECTOR, Form, matrix
from ..jaxprs import called
from .outputs import Outputs, resolved
from .tracks import (
  FREE,
  JOINS,
  MOVES,
  THROUGH,
  Digit,
  Track,
  cut,
  digits_of,
  distinct,
  part_of,
  product_of,
  reshaped,
  sizes_of,
  stretched,
  without,
)

# Equations whose output has the axes of an input; `rev` only turns some round.
_ELEMENTWISE = set(
  'abs add add_any atan2 cbrt ceil clamp convert_element_type copy copy_p cos '
  'cosh div erf erf_inv erfc exp exp2 expm1 floor integer_pow '
  'layout_constraint log log1p logistic max mesh_cast min mul name neg '
  'nextafter pcast pow pvary '
  'reduce_precision rem rev round rsqrt select_n sharding_constraint sign sin '
  'sinh sqrt square stop_gradient sub tan tanh'.split()
)
# As many outputs as inputs, each the input.
_SAME_EACH = {'device_put', 'optimization_barrier'}
_SUMS = {'add', 'add_any', 'sub'}


class _Level(enum.IntEnum):
  """How far a value is from parameters; a result has its inputs' highest."""

  NUMBER = 0  # a scalar, or many times the same
  PARAMETER = 1  # made of parameters alone
  CONSTANT = 2  # an array from elsewhere: the batch, a mask, random numbers
  DATA = 3  # what a layer has given


class _Value(NamedTuple):
  tracks: tuple[Track, ...] = ()
  level: int = _Level.CONSTANT
  is_comparison: bool = False
  is_weights: bool = False  # made by exp, divided: softmax; or by a sigmoid
  given: tuple[Track, ...] = ()  # where the axes are that layers have given


_Roles = dict[Digit, str]  # 'in', 'out' or 'stacked'


class _Use(NamedTuple):
  """As a matrix."""

  rows: int  # to how many it is applied
  roles: _Roles
  key: Any
  is_mixture: bool = False  # what goes in are weights that sum to 1
  num_backward: int = 0  # gradients that the function itself takes around it


@dataclasses.dataclass
class _Uses:
  """Of one parameter; matrices by the equation, so that none counts twice."""

  matrices: dict[Any, _Use] = dataclasses.field(default_factory=dict)
  is_table: bool = False
  is_depthwise: bool = False
  is_chosen: bool = False  # rows of several axes are looked up
  is_taken: bool = False  # a single row of one axis is looked up
  is_combined: bool = False  # added to, or multiplied by, something
  is_unclear: bool = False  # as a matrix, or as what goes into another


def forms_of_uses(
  fn: Callable[[Any], Any], params: Any
) -> tuple[Form | None, ...]:
  """The form of each parameter, by what a function does with it.

  Args:
    fn: of the parameters; for example a loss, with an example batch bound.
    params: a tree of arrays or of jax.ShapeDtypeStruct.

  Returns:
    In the order of the leaves; None where a parameter has no use that tells.
  """
  leaves = jax.tree_util.tree_leaves(params)
  jaxpr = _traced(fn, params)
  are_wanted = [True] * len(jaxpr.outvars)
  # What a function leaves unused is no use.
  jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, are_wanted, instantiate=True)
  walk = _Walk([leaf.shape for leaf in leaves])
  arguments = [
    _Value((walk.whole(i),), _Level.PARAMETER) for i in range(len(leaves))
  ]
  walk.follow(jaxpr, arguments, {})
  return walk.forms()


def forms_of_init(
  init: Callable[..., Any], *args: Any
) -> tuple[Form | None, ...]:
  """The form of each parameter that a function makes, by what it does with it.

  Flax's `Module.init` runs the model on the example that it is given, and so
  does the benchmark's `init_model_fn`.

  Args:
    init: returns a tree of parameters.
    *args: for example a key, raw or typed.

  Returns:
    In the order of the leaves of the result; None where a parameter is not used
    in a way that tells. A function that makes parameters and runs no model
    gives None for all of them.
  """
  jaxpr = _traced(init, *args)
  walk = _Walk([var.aval.shape for var in jaxpr.outvars])
  arguments = [_Value() for _ in jaxpr.invars]
  seeds: dict[int, Track] = {}
  for i, var in enumerate(jaxpr.outvars):
    _seed(seeds, var, walk.whole(i))
  walk.follow(jaxpr, arguments, seeds)
  return walk.forms()


def _traced(fn: Callable[..., Any], *args: Any) -> Any:
  with jax.disable_jit(False):  # or a loop would be run, and not traced
    return jax.make_jaxpr(fn)(*args).jaxpr


def _beside(track: Track, after: Track) -> Track:
  """Of a result in which a parameter is the same along the other's axes."""
  dims = (
    tuple(d if d.axis >= 0 else Digit(FREE, 0, d.size) for d in dim)
    for dim in after.dims
  )
  return track._replace(dims=tuple(dims))


def _num_backward(equation: Any) -> int:
  """How many gradients jax has taken to make an equation, in its own words."""
  return str(equation.source_info.name_stack).count('transpose(jvp(')


def _seed(seeds: dict[int, Track], var: Any, track: Track) -> None:
  """Notes that a variable is a parameter; the first word on it counts."""
  if not hasattr(var, 'val'):  # a literal is no variable
    seeds.setdefault(id(var), track)


class _Walk:
  """Follows parameters through jaxprs and gathers their uses."""

  def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
    self._shapes = shapes
    self._uses = [_Uses() for _ in shapes]
    self._outputs = Outputs()
    self._num_backward = 0

  def whole(self, leaf: int) -> Track:
    """Of the parameter itself."""
    sizes = enumerate(self._shapes[leaf])
    return Track(leaf, tuple((Digit(i, 1, n),) for i, n in sizes))

  def forms(self) -> tuple[Form | None, ...]:
    return tuple(
      _form(shape, uses, self._outputs)
      for shape, uses in zip(self._shapes, self._uses)
    )

  def follow(
    self, jaxpr: Any, arguments: Sequence[_Value], seeds: dict[int, Track]
  ) -> list[_Value]:
    """The outputs' values, from those of the inputs.

    Args:
      jaxpr: whose equations are followed.
      arguments: of its inputs.
      seeds: the variables in it that are parameters which are made in it.
    """
    self._aliases(jaxpr, seeds)
    env: dict[int, _Value] = {}

    def value(var: Any) -> _Value:
      fresh = _Value(level=_Level.CONSTANT)
      of_var = fresh if hasattr(var, 'val') else env.get(id(var), fresh)
      is_scalar = math.prod(getattr(var.aval, 'shape', ())) == 1
      if is_scalar and not (of_var.tracks or of_var.given):
        return of_var._replace(level=_Level.NUMBER)
      return of_var

    def keep(variables: Any, values: Iterable[_Value]) -> None:
      for var, of_var in zip(variables, values):
        shape = getattr(var.aval, 'shape', ())
        fits = tuple(t for t in of_var.tracks if sizes_of(t) == shape)
        given = tuple(t for t in of_var.given if sizes_of(t) == shape)
        of_var = of_var._replace(tracks=fits, given=given)
        if id(var) in seeds:
          of_var = _Value((seeds[id(var)],), _Level.PARAMETER)
        env[id(var)] = of_var

    keep(jaxpr.invars, arguments)
    keep(jaxpr.constvars, [_Value() for _ in jaxpr.constvars])
    for equation in jaxpr.eqns:
      inputs = list(map(value, equation.invars))
      inner = {
        i: seeds[id(var)]
        for i, var in enumerate(equation.outvars)
        if id(var) in seeds
      }
      if inner or any(v.tracks or v.given for v in inputs):
        outer = self._num_backward
        self._num_backward = outer + _num_backward(equation)
        outputs = self._through(equation, inputs, inner)
        self._num_backward = outer
      else:
        outputs = _untracked(equation, inputs)
      keep(equation.outvars, outputs)
    return list(map(value, jaxpr.outvars))

  def _aliases(self, of: Any, seeds: dict[int, Track]) -> None:
    """Goes back from what is handed out to where the model has it.

    On the way a parameter may be put on devices, cast, or get an axis of them.
    """
    for equation in reversed(of.eqns):
      name = equation.primitive.name
      for i, out in enumerate(equation.outvars):
        track = seeds.get(id(out))
        if track is None:
          continue
        if name in _SAME_EACH:
          _seed(seeds, equation.invars[i], track)
        elif name in ('convert_element_type', 'copy', 'copy_p'):
          _seed(seeds, equation.invars[0], track)
        elif name == 'broadcast_in_dim':
          # vmap does so with what is the same in each of its layers: zeros.
          old = equation.params['broadcast_dimensions']
          new = [j for j in range(len(track.dims)) if j not in old]
          of_row = without(track, *new)
          if sizes_of(of_row) == equation.invars[0].aval.shape != ():
            _seed(seeds, equation.invars[0], of_row)
        elif name == 'stack':
          of_row = without(track, equation.params['axis'])
          for var in equation.invars:
            _seed(seeds, var, of_row)
        elif name == 'concatenate':
          for var in equation.invars:
            _seed(seeds, var, cut(track, var.aval.shape))
      jaxpr = called(equation)
      inner: dict[int, Track] = {}
      for var, out in zip(getattr(jaxpr, 'outvars', ()), equation.outvars):
        if id(out) in seeds:
          _seed(inner, var, seeds[id(out)])
      if inner:
        self._aliases(jaxpr, inner)
        for var, argument in zip(jaxpr.invars, equation.invars):
          if id(var) in inner:
            _seed(seeds, argument, inner[id(var)])

  def _through(
    self, equation: Any, inputs: list[_Value], inner: dict[int, Track]
  ) -> list[_Value]:
    """The values of one equation's outputs, some of which may be parameters."""
    name, params = equation.primitive.name, equation.params
    if self._num_backward:
      # What a gradient does with an axis says nothing of what it holds.
      inputs = [v._replace(given=()) for v in inputs]
    if name == 'cond':
      branches = [
        self._call(branch.jaxpr, inputs[1:], inner)
        for branch in params['branches']
      ]
      return [_joined(column) for column in zip(*branches)]
    if name == 'while':
      return self._while(params, inputs)
    if name == 'scan':
      return self._scan(equation, inputs, inner)
    jaxpr = called(equation)
    if jaxpr is not None:
      return self._call(jaxpr, inputs, inner)
    outputs = self._at(equation, inputs)
    if name in ('dot_general', 'conv_general_dilated'):
      return outputs  # they say themselves what they give
    given = self._outputs.after(equation, [v.given for v in inputs])
    return [v._replace(given=g) for v, g in zip(outputs, given)]

  def _at(self, equation: Any, inputs: list[_Value]) -> list[_Value]:
    """The values of the outputs of an equation that is no call."""
    name = equation.primitive.name
    if not any(v.tracks or v.given for v in inputs):
      return _untracked(equation, inputs)
    special: Callable[..., list[_Value]] | None
    special = getattr(self, f'_at_{name}', None)
    if special is not None:
      return special(equation, inputs)
    if name in _SAME_EACH:
      return inputs
    if name in _ELEMENTWISE:
      shape = equation.outvars[0].aval.shape
      return [self._combined(equation, inputs, shape)]
    outputs = _untracked(equation, inputs)
    move = MOVES.get(name)
    if move is None:
      return outputs
    first = inputs[0]
    others = [v.level for v in inputs[1:] if name in JOINS]
    if max(others, default=0) == _Level.DATA or first.level == _Level.DATA:
      self._note_combined(inputs)
      return outputs
    parts = inputs if name in JOINS else inputs[:1]
    if not any(v.tracks for v in parts):
      return outputs
    # A learnt token that is put before those of the batch is no layer.
    is_pure = all(v.tracks for v in parts)
    is_joined = any(v.level == _Level.CONSTANT for v in parts)
    for i, out in enumerate(equation.outvars):
      tracks = [
        moved._replace(
          is_pure=moved.is_pure and is_pure,
          is_joined=moved.is_joined or is_joined,
        )
        for v in parts
        for track in v.tracks
        if (moved := move(equation, track, out.aval.shape))
      ]
      outputs[i] = outputs[i]._replace(tracks=distinct(tracks))
    return outputs

  def _call(
    self, jaxpr: Any, inputs: Sequence[_Value], inner: dict[int, Track]
  ) -> list[_Value]:
    """The values of a call's outputs; a shard has a part of each parameter."""
    inputs = [
      value._replace(
        tracks=tuple(_within(t, var) for t in value.tracks),
        given=tuple(_within(t, var) for t in value.given),
      )
      for value, var in zip(inputs, jaxpr.invars)
    ]
    seeds: dict[int, Track] = {}
    for i, track in inner.items():
      _seed(seeds, jaxpr.outvars[i], track)
    return self.follow(jaxpr, inputs, seeds)

  def _while(self, params: Any, inputs: list[_Value]) -> list[_Value]:
    first = params['cond_nconsts']
    second = first + params['body_nconsts']
    body = params['body_jaxpr'].jaxpr
    return self._settled(
      lambda carry: self._call(body, [*inputs[first:second], *carry], {}),
      inputs[second:],
    )

  def _settled(
    self,
    step: Callable[[list[_Value]], list[_Value]],
    carry: list[_Value],
  ) -> list[_Value]:
    """The values of a loop's carry, and of what else its last round gives.

    Levels only rise, tracks are only dropped, and what layers have given is
    only added, so that they settle.
    """
    while True:
      outputs = step(carry)
      after = [
        _Value(
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

  def _scan(
    self, equation: Any, inputs: list[_Value], inner: dict[int, Track]
  ) -> list[_Value]:
    params = equation.params
    first, count = params['num_consts'], params['num_carry']
    second = first + count
    rows = [
      v._replace(
        tracks=tuple(without(t, 0) for t in v.tracks),
        given=tuple(without(t, 0) for t in v.given),
      )
      for v in inputs[second:]
    ]
    # A parameter that is made in the body is handed out stacked.
    within = {
      i: without(track, 0) if i >= count else track
      for i, track in inner.items()
    }
    body = params['jaxpr'].jaxpr
    outputs = self._settled(
      lambda carry: self._call(body, [*inputs[:first], *carry, *rows], within),
      inputs[first:second],
    )
    of_scan = {t.stacked[-1:] for v in rows for t in (*v.tracks, *v.given)}

    def with_rows(track: Track) -> Track:
      """What the body has made of a row, with the axis that was scanned."""
      if track.stacked[-1:] in of_scan and track.stacked:
        dims = (track.stacked[-1:], *track.dims)
        return track._replace(dims=dims, stacked=track.stacked[:-1])
      free = (Digit(FREE, 0, params['length']),)
      return track._replace(dims=(free, *track.dims))

    return [
      *outputs[:count],
      *(
        v._replace(
          tracks=tuple(map(with_rows, v.tracks)),
          given=tuple(map(with_rows, v.given)),
        )
        for v in outputs[count:]
      ),
    ]

  def _note_combined(self, inputs: Iterable[_Value]) -> None:
    for value in inputs:
      for track in value.tracks:
        self._uses[track.leaf].is_combined = True

  def _combined(
    self, equation: Any, inputs: list[_Value], shape: tuple[int, ...]
  ) -> _Value:
    """Of an elementwise operation."""
    level = max((v.level for v in inputs), default=_Level.CONSTANT)
    is_comparison = equation.primitive.name == 'convert_element_type'
    is_comparison = is_comparison and inputs[0].is_comparison
    if level >= _Level.CONSTANT or sum(v.level > 0 for v in inputs) > 1:
      self._note_combined(inputs)
    if level == _Level.DATA:
      return _Value((), level, is_comparison, _is_weights(equation, inputs))
    is_pure = level <= _Level.PARAMETER
    tracks = []
    for i, value in enumerate(inputs):
      others = [v for j, v in enumerate(inputs) if j != i]
      is_change = equation.primitive.name in _SUMS and any(
        v.level == _Level.CONSTANT
        or any(t.is_layer and not t.bound for t in v.tracks)
        for v in others
      )
      for track in value.tracks:
        if after := stretched(track, shape):
          tracks.append(
            after._replace(
              is_pure=track.is_pure and is_pure,
              is_change=track.is_change or bool(track.bound) and is_change,
            )
          )
    is_weights = _is_weights(equation, inputs)
    return _Value(distinct(tracks), level, is_comparison, is_weights)

  def _note_matrix(
    self,
    equation: Any,
    track: Track,
    roles: Sequence[str],
    rows: int,
    is_mixture: bool = False,
  ) -> _Use | None:
    """Notes a use as a matrix, by the role of each axis of the value.

    Args:
      equation: the use.
      track: of the parameter.
      roles: 'in', 'out' or 'stacked', of each axis of the value.
      rows: to how many the matrix is applied.
      is_mixture: whether it is applied to weights that sum to 1.

    Returns:
      The use, if it is the first to be noted of this equation.
    """
    use: _Roles = dict.fromkeys(track.stacked, 'stacked')
    through: dict[int, set[str]] = {}
    free: set[str] = set()
    uses = self._uses[track.leaf]
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
      uses.is_unclear = True
      return None
    if ('in' in free or 'out' in free) and not uses.is_chosen:
      # Broadcast along an axis of the layer: it is what goes in, or the layer
      # is repeated.
      uses.is_combined = True
      uses.is_unclear |= is_whole and 'in' not in free
      return None
    for number, of_others in through.items():
      sides = {'stacked'} if is_whole else of_others - {'stacked'}
      if len(sides) != 1:
        uses.is_combined = True  # the weights of a mixture of matrices
        return None
      use.update(dict.fromkeys(track.bound[number], *sides))
    key = track.leaf, id(equation)
    new = _Use(rows, use, key, is_mixture, self._num_backward)
    self._uses[track.leaf].matrices.setdefault(key, new)
    return new

  def _given(
    self, use: _Use | None, dims: Sequence[tuple[Digit, ...]]
  ) -> tuple[Track, ...]:
    """Of what a use gives, if the parameter has several axes in it."""
    if use is None:
      return ()
    are_given = {d for d, r in use.roles.items() if r == 'out' and d.size > 1}
    own = [
      tuple(d if d in are_given else Digit(FREE, 0, d.size) for d in dim)
      for dim in dims
    ]
    axes = {d.axis for dim in own for d in dim} - {FREE}
    return (self._outputs.given(use.key, own),) if len(axes) > 1 else ()

  def _at_dot_general(
    self, equation: Any, inputs: list[_Value]
  ) -> list[_Value]:
    contracted, batch = equation.params['dimension_numbers']
    left, right = inputs
    on_both = {t.leaf for t in left.tracks} & {t.leaf for t in right.tracks}
    are_layers = [any(t.is_layer for t in v.tracks) for v in inputs]
    is_product = all(are_layers) and not on_both
    products: list[Track] = []
    given: list[Track] = []
    chosen: list[Track] = []
    sizes = [
      [
        n
        for i, n in enumerate(var.aval.shape)
        if i not in contracted[side] and i not in batch[side]
      ]
      for side, var in enumerate(equation.invars)
    ]

    def is_sum_of_chosen(track: Track, axes: Sequence[int]) -> bool:
      """Whether chosen matrices are only weighed, and have no input yet."""
      dims = [d for dim in track.dims for d in dim if d.axis >= 0]
      gone = {d for i in axes for d in track.dims[i] if d.size > 1}
      return (
        self._uses[track.leaf].is_chosen
        and not track.bound
        and bool(gone)
        and all(d.axis == FREE for d in gone)
        and len({d.axis for d in dims if d.size > 1}) > 1
      )

    for side, (value, other) in enumerate(((left, right), (right, left))):
      axes = contracted[side], batch[side], sizes
      for track in value.given:
        is_layer = are_layers[1 - side]
        given += self._outputs.after_dot(
          track, side, *axes, is_layer, other.is_weights
        )
      # What goes in may hold parameters too: positions, or a learnt query.
      is_input = not are_layers[side] and are_layers[1 - side]
      for track in value.tracks:
        after = product_of(track, side, *axes)
        if other.is_comparison and contracted[side]:
          chosen += self._chosen(track, after)
          continue
        if is_sum_of_chosen(track, contracted[side]):
          chosen.append(_beside(track, after))
          continue
        if track.leaf in on_both:
          continue
        if is_input:
          self._uses[track.leaf].is_combined = True
          continue
        roles = ['out'] * len(track.dims)
        for axis in contracted[side]:
          roles[axis] = 'in'
        for axis in batch[side]:
          roles[axis] = 'stacked'
        rows = math.prod(sizes[1 - side])
        use = None
        if track.bound and not is_product:
          use = self._note_product(equation, track, roles, rows, other.level)
        elif not is_product:
          is_mixture = other.is_weights
          use = self._note_matrix(equation, track, roles, rows, is_mixture)
        elif side and not track.bound:
          # As a layer, unless the product turns out to be one.
          use = self._note_matrix(equation, track, roles, 0)
        else:
          self._uses[track.leaf].is_combined = True
        given += self._given(use, after.dims)
        if is_product:
          products.append(after)
    if chosen:
      return [_Value(tuple(chosen), _Level.PARAMETER)]
    if on_both:
      # A parameter with itself is no layer: a norm, or a regulariser.
      return [_Value(level=max(v.level for v in inputs))]
    if is_product:
      level = _Level.PARAMETER
      return [_Value(tuple(products), level, given=distinct(given))]
    return [_Value(level=_Level.DATA, given=distinct(given))]

  def _chosen(self, track: Track, after: Track) -> list[Track]:
    """Of rows that are chosen by a one-hot code: of a table, or of a stack."""
    uses = self._uses[track.leaf]
    own = [d for dim in after.dims for d in dim if d.axis >= 0 and d.size > 1]
    if len({d.axis for d in own}) < 2 or track.bound:
      uses.is_table = True
      return []
    uses.is_chosen = True
    chosen = _beside(track, after)
    return [chosen._replace(stacked=track.stacked + after.bound[-1])]

  def _note_product(
    self,
    equation: Any,
    track: Track,
    roles: list[str],
    rows: int,
    level: int,
  ) -> _Use | None:
    """Notes the use of a product of parameters as a matrix.

    Args:
      equation, track, roles, rows: see `_note_matrix`.
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
    if not is_layer and level == _Level.DATA:
      # A product of two weights (out, in), or learnt queries times theirs.
      self._uses[track.leaf].is_unclear = True
      return None
    return self._note_matrix(equation, track, roles, rows)

  def _at_ragged_dot(self, equation: Any, inputs: list[_Value]) -> list[_Value]:
    """Rows that are sorted by expert, times (experts, in, out)."""
    return self._at_ragged(equation, inputs, [1], [0])

  def _at_ragged_dot_general(
    self, equation: Any, inputs: list[_Value]
  ) -> list[_Value]:
    numbers = equation.params['ragged_dot_dimension_numbers']
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    stacked = [*batch, *numbers.rhs_group_dimensions]
    return self._at_ragged(equation, inputs, contracted, stacked)

  def _at_ragged(
    self,
    equation: Any,
    inputs: list[_Value],
    contracted: Sequence[int],
    stacked: Sequence[int],
  ) -> list[_Value]:
    rows = max(equation.invars[0].aval.shape)
    self._note_combined(inputs[:1])
    for track in inputs[1].tracks:
      roles = ['out'] * len(track.dims)
      for axis in contracted:
        roles[axis] = 'in'
      for axis in stacked:
        roles[axis] = 'stacked'
      self._note_matrix(equation, track, roles, rows)
    return [_Value(level=_Level.DATA)]

  def _at_conv_general_dilated(
    self, equation: Any, inputs: list[_Value]
  ) -> list[_Value]:
    params = equation.params
    image, kernel = equation.invars
    out = params['dimension_numbers'].rhs_spec[0]
    groups = params['feature_group_count']
    channels = image.aval.shape[params['dimension_numbers'].lhs_spec[1]]
    self._note_combined(inputs[:1])
    given: list[Track] = []
    for track in inputs[0].given:
      given += self._outputs.after_convolution(equation, track)
    for track in inputs[1].tracks:
      if params['batch_group_count'] > 1:
        continue  # the gradient of a convolution
      roles = ['in'] * len(track.dims)
      roles[out] = 'out'
      shape = list(kernel.aval.shape)
      features = track.dims[out]
      if groups > 1:
        # The outer part of the axis out says the group.
        shape[out : out + 1] = [groups, shape[out] // groups]
        roles[out : out + 1] = ['stacked', 'out']
        by_group = reshaped(track, tuple(shape))
        if by_group is None:
          continue
        track = by_group
        features = track.dims[out] + track.dims[out + 1]
      if groups > 1 and groups == channels and not _is_batched(track, roles):
        self._uses[track.leaf].is_depthwise = True
        continue
      rows = math.prod(equation.outvars[0].aval.shape) // kernel.aval.shape[out]
      use = self._note_matrix(equation, track, roles, rows)
      sizes_out = equation.outvars[0].aval.shape
      dims = [(Digit(FREE, 0, n),) for n in sizes_out]
      dims[params['dimension_numbers'].out_spec[1]] = features
      given += self._given(use, dims)
    return [_Value(level=_Level.DATA, given=distinct(given))]

  def _at_gather(self, equation: Any, inputs: list[_Value]) -> list[_Value]:
    numbers = equation.params['dimension_numbers']
    sizes = equation.params['slice_sizes']
    operand, indices = (var.aval.shape for var in equation.invars[:2])
    shape = equation.outvars[0].aval.shape
    collapsed = numbers.collapsed_slice_dims
    batching = getattr(numbers, 'operand_batching_dims', ())
    # An array of one index looks up, as one of many does; a number does not.
    is_one = len(indices) < 2 and math.prod(indices) == len(
      numbers.start_index_map
    )
    rest = [i for i in range(len(operand)) if i not in (*collapsed, *batching)]
    tracks = []
    for track in inputs[0].tracks:
      if inputs[0].level == _Level.DATA:
        continue
      if is_one:
        self._note_taken(track, sizes)
      row = self._row(track, sizes, is_one, batching)
      if row is None:
        continue
      dims: list[tuple[Digit, ...]] = [(Digit(FREE, 0, n),) for n in shape]
      for place, axis in zip(numbers.offset_dims, rest):
        dims[place] = row.dims[axis]
      tracks.append(row._replace(dims=tuple(dims)))
    level = inputs[0].level if tracks else _Level.DATA
    return [_Value(tuple(tracks), level)]

  def _at_dynamic_slice(
    self, equation: Any, inputs: list[_Value]
  ) -> list[_Value]:
    sizes = equation.params['slice_sizes']
    for track in inputs[0].tracks:
      self._note_taken(track, sizes)
    return [self._one_slice(equation, inputs[0], sizes)]

  def _note_taken(self, track: Track, sizes: Sequence[int]) -> None:
    if sum(n > 1 for n in sizes) == 1 and not track.bound:
      self._uses[track.leaf].is_taken = True

  def _at_slice(self, equation: Any, inputs: list[_Value]) -> list[_Value]:
    sizes = equation.outvars[0].aval.shape
    return [self._one_slice(equation, inputs[0], sizes)]

  def _one_slice(
    self, equation: Any, value: _Value, sizes: Sequence[int]
  ) -> _Value:
    if value.level == _Level.DATA:
      return _Value(level=_Level.DATA)
    rows = (self._row(t, sizes, True, ()) for t in value.tracks)
    return value._replace(tracks=tuple(t for t in rows if t))

  def _row(
    self,
    track: Track,
    sizes: Sequence[int],
    is_one: bool,
    batching: Sequence[int],
  ) -> Track | None:
    """Of slices of these sizes, one or an array of them; None if of a table.

    A slice of size 1 of what has two or more other axes is a layer of a stack.
    """
    old = sizes_of(track)
    is_row = [n == 1 and n != m for n, m in zip(sizes, old)]
    others = [n for i, n in enumerate(sizes) if n > 1 and i not in batching]
    uses = self._uses[track.leaf]
    if not is_one and any(is_row):
      pairs = zip(track.dims, is_row)
      if not any(
        d.axis >= 0 for dim, is_one_row in pairs if is_one_row for d in dim
      ):
        uses.is_combined = True  # by the rows of another factor of a product
        return None
      if len(others) < 2:
        uses.is_table = True
        return None
      uses.is_chosen = True
    stacked = track.stacked
    dims: list[tuple[Digit, ...]] = []
    for dim, n, m, is_one_row in zip(track.dims, sizes, old, is_row):
      if is_one_row and len(others) > 1:
        stacked += tuple(d for d in dim if d.axis >= 0)
        dims.append(())
      else:
        dims.append(dim if n == m else part_of(dim, n))
    return track._replace(dims=tuple(dims), stacked=stacked)


def _form(shape: tuple[int, ...], uses: _Uses, outputs: Outputs) -> Form | None:
  """The form that a parameter has by its uses."""
  is_used = uses.is_table or uses.is_depthwise or bool(uses.matrices)
  is_used = is_used or uses.is_chosen or uses.is_combined or uses.is_unclear
  if not is_used:
    return None
  if sum(n > 1 for n in shape) < 2:
    return VECTOR
  if uses.is_table:
    return TABLE
  if uses.is_taken and any(
    {'in', 'out'} <= {r for d, r in use.roles.items() if d.stride}
    for use in uses.matrices.values()
  ):
    return TABLE  # of words, one of which is looked up at a time
  if uses.matrices:
    use = max(
      uses.matrices.values(), key=lambda use: (not use.num_backward, use.rows)
    )
    if not use.rows and uses.is_unclear:
      return None
    roles = use.roles
    if use.num_backward % 2:
      # What comes out of a layer goes into its gradient.
      swap = {'in': 'out', 'out': 'in'}
      roles = {digit: swap.get(role, role) for digit, role in roles.items()}
    told = resolved(roles, outputs.fates(use.key), use.is_mixture)
    return None if told is None else _matrix(shape, told)
  if uses.is_depthwise:
    return DEPTHWISE
  if uses.is_unclear:
    return None
  return TABLE if uses.is_chosen else VECTOR


def _matrix(shape: tuple[int, ...], roles: _Roles) -> Form | None:
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
    strides = [
      math.prod(d.size for d in digits[i + 1 :]) for i in range(len(digits))
    ]
    if strides != [d.stride for d in digits]:
      return None
    if math.prod(d.size for d in digits) != size:
      return None
    for digit in digits:
      axes[roles[digit]].append(len(split))
      split.append(digit.size)
  own_split = tuple(split) if tuple(split) != shape else ()
  form = matrix(axes['in'], axes['out'], axes['stacked'], own_split)
  _, fan_in, fan_out = form.sides(shape)
  return form if min(fan_in, fan_out) > 1 else VECTOR


def _within(track: Track, var: Any) -> Track:
  """Of a call's input, which may be smaller than what is handed in."""
  shape = getattr(var.aval, 'shape', ())
  return cut(track, shape) if len(shape) == len(track.dims) else track


def _untracked(equation: Any, inputs: Sequence[_Value]) -> list[_Value]:
  """The values of an equation's outputs in which no parameter is followed."""
  name = equation.primitive.name
  level = max((v.level for v in inputs), default=_Level.CONSTANT)
  if name in _KEEPS_COMPARISON:
    is_comparison = inputs[0].is_comparison
  else:
    is_comparison = name == 'eq' or (
      called(equation) is not None
      and 'one_hot' in str(equation.params.get('name'))
    )
  is_weights = _is_weights(equation, inputs)
  return [
    _Value((), level, is_comparison, is_weights) for _ in equation.outvars
  ]


def _is_weights(equation: Any, inputs: Sequence[_Value]) -> bool:
  """Whether a value is made by exp, or by a sigmoid, and only scaled since."""
  name = equation.primitive.name
  if name in ('exp', 'logistic'):
    return True
  if name == 'mul':
    arrays = [v for v in inputs if v.level > _Level.NUMBER]
    return bool(arrays) and all(v.is_weights for v in arrays)
  kept = ('div', 'top_k', 'gather', 'sort', *_KEEPS_COMPARISON)
  return name in kept and inputs[0].is_weights


_KEEPS_COMPARISON = {'convert_element_type', 'reshape', 'broadcast_in_dim'}
_KEEPS_COMPARISON |= {'transpose', 'squeeze', 'expand_dims', 'copy'}
# Of codes these make one of several words.
_KEEPS_COMPARISON |= {'reduce_sum', 'reduce_max', 'reduce_or'}


def _is_batched(track: Track, roles: Sequence[str]) -> bool:
  """Whether a convolution's groups are layers that vmap puts side by side."""
  stacked, outputs = (
    {d.axis for d in digits_of(track, roles, role) if d.size > 1}
    for role in ('stacked', 'out')
  )
  return bool(outputs) and not stacked & outputs


def _joined(values: Sequence[_Value]) -> _Value:
  """Of what is one of these."""
  tracks, given = (
    distinct(t for of_value in column for t in of_value)
    for column in zip(*((v.tracks, v.given) for v in values))
  )
  return _Value(tracks, max(v.level for v in values), given=given)

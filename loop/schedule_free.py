"""Muon with Schedule-Free's average, as a transformation of optax."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import (
  tree_flatten,
  tree_leaves,
  tree_map,
  tree_unflatten,
)
from jax.typing import ArrayLike

from ..core.checks import check, check_count, check_number, check_precision
from ..core.forms import Answer, Form, guess_among
from ..optimizers.at_gradient import AtGradient, average_at
from ..optimizers.average import Averaged, AveragedState
from ..optimizers.clocked import TRANSFORMATION
from ..optimizers.muon import Muon
from ..optimizers.peaks import SpectralPeak, spectral_size
from ..optimizers.precise import (
  change,
  coarse_of,
  in_float32,
  is_coarse,
  is_masked,
  widened,
)
from ..optimizers.schedule_free import ScheduleFreeMuon
from ..optimizers.step import RunStart, Step
from .parameters import OfPath, check_floats, parameter_forms
from .settings import attempt

# The numbers of the setting in force.
_OPTIMIZER = ScheduleFreeMuon()
_PEAK = SpectralPeak()
# What stands between a user's line and `init`.
_LIBRARIES = {__name__.partition('.')[0], 'equinox', 'flax', 'jax', 'optax'}
_OF_LOOP = (
  'those that the loop trains, as a tree like that given to init; of a model '
  'of nnx, nnx.state(model, nnx.Param)'
)
_OF_INIT = 'a tree like that given to init'


class ScheduleFreeState(NamedTuple):
  """State of `schedule_free_muon`; the first five fields are optax's."""

  b1: Any  # shape=(), dtype=float32; share of x where the gradient is taken
  weight_sum: Any  # shape=(), dtype=float32; of the weights in the average
  step_count: Any  # shape=(), dtype=int32; steps at a rate above 0
  base_optimizer_state: Any  # of Muon
  z: Any  # the iterate that takes the steps, in float32 at least
  count: Any  # shape=(), dtype=int32; all steps, which a schedule counts
  # shape=(), dtype=float32; of the matrices at init, by which the weight decay
  # goes; see `Muon`.
  size: Any
  # shape=(), dtype=float32; the rate that init has taken from the parameters.
  # None where a rate is given.
  peak: Any
  # y in float32, where the parameters are of less.
  copies: Any


def schedule_free_muon(
  learning_rate: ArrayLike | Callable[[Any], Any] | None = None,
  *,
  num_steps: int | None = None,
  steps_per_epoch: float | None = None,
  optimizer: Averaged = _OPTIMIZER,
  matrices: OfPath | None = None,
  loss_fn: Callable[[Any], Any] | None = None,
) -> optax.GradientTransformation:
  """Muon with Schedule-Free's average, for any loop that takes optax.

    tx = schedule_free_muon(num_steps=900)
    ...
    evaluate(schedule_free_eval_params(opt_state, params))

  The convention is that of `optax.contrib.schedule_free`: the parameters of the
  loop are y, where the gradient is taken, and one call gives the average x to
  evaluate, save and use. A loop that forgets the call trains right, and
  evaluates y. With x as the parameters, a loop that forgot would train wrong.

  Steps, average, peak and forms are those of the submission (`MUON`), whose
  parameters are x: both give the same x, but for rounding.

  Parameters of less than float32: the state has y in float32 as well, and z and
  the moments are in float32, so that a parameter in bfloat16 takes 12 bytes of
  state in the place of 4. The updates have the parameters' type, and bring them
  to y, rounded.

  Args:
    learning_rate: a number of at least 0; a schedule of the step, from 0; or
      None: then `init` takes a constant rate from the spectral size of the
      parameters, by `SpectralPeak`, and the state keeps it. Where all matrices
      are 0 it is that of a size of 1. A rate and a schedule may be injected by
      `optax.inject_hyperparams`.
    num_steps: steps of the run, of which a long one takes a smaller rate; only
      where no learning_rate is given. None: not known.
    steps_per_epoch: steps in which each example is seen once, at least 1; only
      with num_steps. The more often a run sees its data, the stronger is its
      weight decay; see `Muon.epochs_factor`. None: the data have no end.
    optimizer: the numbers, such as ScheduleFreeMuon(weight_decay=0.1). The
      weight decay goes by the rate over the size of the matrices at `init`; see
      `Muon`. A restored state keeps its one_minus_beta1.
    matrices: see `Cycles`. The paths are those of the parameters that the
      transformation is given.
    loss_fn: see `Cycles`. Its trace tells what each parameter is. Without it,
      names and shapes tell, and `init` warns of what is guessed.

  Returns:
    A transformation whose state is a `ScheduleFreeState`. Its update needs the
    parameters.

  Raises:
    ValueError: for an argument that cannot work; in `init`, for parameters of
      float16, for complex ones, integers and what is no array, and where no
      learning_rate is given and no parameter is a matrix.

  Sources: see `Averaged`, `Muon` and `SpectralPeak`.
  """
  _check_arguments(learning_rate, num_steps, steps_per_epoch, optimizer)
  matrices, loss_fn = map(_function_in, (matrices, loss_fn))
  for name, function in (('matrices', matrices), ('loss_fn', loss_fn)):
    is_usable = function is None or callable(function)
    check(is_usable, name, function, 'a function or None')
  at_gradient = AtGradient(optimizer)

  def share() -> Any:
    return _PEAK.share * _PEAK.length_in(jnp, num_steps)

  def decay_factor() -> ArrayLike:
    if num_steps is None or steps_per_epoch is None:
      return 1.0
    return optimizer.epochs_factor(num_steps / steps_per_epoch, share())

  @functools.lru_cache(maxsize=8)
  def answers_of(structure: Any, shapes: Sequence[Any]) -> tuple[Answer, ...]:
    params = tree_unflatten(structure, shapes)
    return parameter_forms(params, matrices, loss_fn)

  def forms_of(params: Any) -> tuple[Answer, ...]:
    leaves, structure = tree_flatten(_shapes_of(params))
    return answers_of(structure, tuple(leaves))

  def init(params: Any) -> ScheduleFreeState:
    _check_not_shapes(params)
    shapes, answers = _shapes_of(params), forms_of(params)
    check_precision('params', shapes)
    check_floats('params', shapes, 'leave it out, as by optax.masked')
    if guess := guess_among(answers, shapes):
      text = f'{guess} (matrices=… or loss_fn=… tell it)'
      warnings.warn(text, stacklevel=_level_of_user())
    forms = tuple(answer.form for answer in answers)
    size, peak = _size_of(params, forms), None
    if learning_rate is None:
      must_be = 'a number or a schedule where no parameter is a matrix'
      has_size = not forms or any(form.is_matrix for form in forms)
      check(has_size, 'learning_rate', learning_rate, must_be)
      peak = jnp.asarray(share() * size, jnp.float32)
    wide = widened(params)
    step = Step(jnp.float32(0), forms=forms)
    inner, t, total, z = at_gradient.build(step).init(wide)
    copies = coarse_of(params, wide)
    b1, count = jnp.float32(at_gradient.b1), jnp.int32(0)
    return ScheduleFreeState(b1, total, t, inner, z, count, size, peak, copies)

  def update(
    updates: Any, state: Any, params: Any = None, **unused: Any
  ) -> tuple[Any, ScheduleFreeState]:
    check(params is not None, 'params', params, 'those that are trained')
    is_own = isinstance(state, ScheduleFreeState)
    must_be = "that of schedule_free_muon's init"
    check(is_own, 'state', type(state).__name__, must_be)
    for name, tree in (('params', params), ('updates', updates)):
      like = lambda tree: tree_map(_check_like, tree, state.z)
      attempt(name, tree, _OF_INIT, like)
    rate = state.peak if learning_rate is None else learning_rate
    if callable(rate):
      rate = rate(state.count)
    forms = tuple(answer.form for answer in forms_of(params))
    step = Step(
      jnp.asarray(rate, jnp.float32),
      decay_factor=decay_factor(),
      taken=state.count,
      forms=forms,
      size=state.size,
    )
    before = AveragedState(
      state.base_optimizer_state, state.step_count, state.weight_sum, state.z
    )
    y = in_float32(state.copies, params)
    tx = at_gradient.build(step, state.b1)
    steps, after = tx.update(widened(updates), before, y)
    new = tree_map(jnp.add, y, steps)
    changes = tree_map(change, params, new, steps)
    as_params = lambda p, step: step.astype(p.dtype) if is_coarse(p) else step
    return tree_map(as_params, params, changes), ScheduleFreeState(
      b1=state.b1,
      weight_sum=after.weight_sum,
      step_count=after.count,
      base_optimizer_state=after.inner,
      z=after.z,
      count=state.count + 1,
      size=state.size,
      peak=state.peak,
      copies=coarse_of(params, new),
    )

  return TRANSFORMATION(init, update)


def schedule_free_eval_params(opt_state: Any, params: Any) -> Any:
  """The average x, which is to be evaluated, given what a loop trains.

  It is `optax.contrib.schedule_free_eval_params`, which takes the bare state.
  This function finds the state inside any wrapper of optax as well. Parameters
  without an average, as under `optax.masked`, stay as they are.

  Args:
    opt_state: of `schedule_free_muon`, or of a transformation around it; of
      nnx, `optimizer.opt_state`.
    params: those of the loop, y; of nnx, `nnx.state(model, nnx.Param)`.

  Returns:
    A tree like params, in their types; of nnx, with arrays in the place of
    variables, for `nnx.update(model, …)`.

  Raises:
    ValueError: if no such state is in it, or those of several models are; for
      parameters of another structure, such as a model of nnx.
  """
  must_be = (
    "one with a state of schedule_free_muon's init in it; of an nnx.Optimizer, "
    'optimizer.opt_state'
  )
  has_state = bool(_states_in(opt_state))
  check(has_state, 'opt_state', type(opt_state).__name__, must_be)
  return with_averages(opt_state, params)


def with_averages(opt_state: Any, params: Any) -> Any:
  """As `schedule_free_eval_params`; without a state, the parameters."""
  for state in _states_in(opt_state):
    params = _evaluated(state, params)
  return params


def is_muon_in(opt_state: Any) -> bool:
  """Whether a state of `schedule_free_muon` is in it."""
  return any(isinstance(x, ScheduleFreeState) for x in _states_in(opt_state))


def is_average_in(opt_state: Any) -> bool:
  """Whether a state of `Averaged` is in it, whose gradient is not at x."""
  is_average = lambda node: isinstance(node, AveragedState)
  return any(map(is_average, tree_leaves(opt_state, is_leaf=is_average)))


def _states_in(opt_state: Any) -> list[Any]:
  """The states of Schedule-Free in it, ours or optax's."""
  nodes = tree_leaves(opt_state, is_leaf=_is_state)
  return [node for node in nodes if _is_state(node)]


def _is_state(node: Any) -> bool:
  return all(hasattr(node, name) for name in ('b1', 'weight_sum', 'z'))


def _is_variable(node: Any) -> bool:
  """Whether it is one of nnx, with an array in it."""
  return hasattr(node, 'get_raw_value') or hasattr(node, 'raw_value')


def _bare(tree: Any) -> Any:
  """A tree without the variables of nnx around its arrays.

  A variable of an optimizer may hold that of a parameter.
  """

  def bare(node: Any) -> Any:
    while _is_variable(node):
      get = getattr(node, 'get_raw_value', None)  # None in older versions
      node = get() if get else node.raw_value
    return node

  return tree_map(bare, tree, is_leaf=_is_variable)


def _evaluated(state: Any, params: Any) -> Any:
  """The parameters, x in the place of those that a state averages."""
  shape = getattr(state.b1, 'shape', ())
  must_be = '() in one model: vmap this call over the models of an ensemble'
  check(shape == (), 'shape of b1', shape, must_be)
  nothing = tree_map(lambda _: optax.MaskedNode(), state.z)  # as in optax's
  copies = getattr(state, 'copies', nothing)

  b1, z, copies, params = _bare((state.b1, state.z, copies, params))

  def average(z: Any, copy: Any, y: Any) -> Any:
    if is_masked(z):
      return y
    wide = y if is_masked(copy) else in_float32(copy, y)
    return average_at(b1, wide, z).astype(y.dtype)

  averages = functools.partial(tree_map, average, z, copies, is_leaf=is_masked)
  return attempt('params', params, _OF_LOOP, averages)


def _check_like(leaf: Any, z: Any) -> None:
  """Raises ValueError if z is a tree, or an array of another shape."""
  shape, right = np.shape(leaf), getattr(z, 'shape', 'a tree')
  if shape != right:
    raise ValueError(f'{shape} in the place of {right}')


class _Function(NamedTuple):
  """A function that nobody calls by mistake."""

  function: Any


def _function_in(argument: Any) -> Any:
  return argument.function if isinstance(argument, _Function) else argument


class _Signature(inspect.Signature):
  """Wraps the functions that are no schedules of the step.

  optax.inject_hyperparams calls every function that it binds with the step,
  unless static_args name it. It does not call these.
  """

  def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    bound = super().bind(*args, **kwargs)
    bound.apply_defaults()  # a functools.partial has its functions there
    for name in ('matrices', 'loss_fn'):
      if callable(bound.arguments.get(name)):
        bound.arguments[name] = _Function(bound.arguments[name])
    return bound


_SIGNATURE = inspect.signature(schedule_free_muon)
vars(schedule_free_muon)['__signature__'] = _Signature(
  [*_SIGNATURE.parameters.values()],
  return_annotation=_SIGNATURE.return_annotation,
)


def _level_of_user() -> int:
  """The stacklevel of a warning at the line that has called a library."""
  level, frame = 1, sys._getframe(1)
  while frame.f_back and _package_of(frame) in _LIBRARIES:
    level, frame = level + 1, frame.f_back
  return level


def _package_of(frame: Any) -> str:
  name: str = frame.f_globals.get('__name__', '')
  return name.partition('.')[0]


def _check_arguments(
  learning_rate: Any, num_steps: Any, steps_per_epoch: Any, optimizer: Any
) -> None:
  if isinstance(learning_rate, (jax.Array, np.ndarray)):
    shape = learning_rate.shape
    check(shape == (), 'shape of learning_rate', shape, '(), as of a number')
  must_be = f'a rate; for the steps of the run num_steps={learning_rate}'
  is_count = isinstance(learning_rate, (int, np.integer)) and learning_rate > 1
  check(not is_count, 'learning_rate', learning_rate, must_be)
  is_number = learning_rate is not None and not callable(learning_rate)
  if is_number and not _is_traced(learning_rate):
    check_number('learning_rate', _value(learning_rate), '[0, inf)')
  if num_steps is not None:
    must_be = 'None where a learning_rate is given'
    check(learning_rate is None, 'num_steps', num_steps, must_be)
    if not _is_traced(num_steps):
      check_count('num_steps', _value(num_steps))
  if steps_per_epoch is not None:
    must_be = 'None where a learning_rate is given'
    check(learning_rate is None, 'steps_per_epoch', steps_per_epoch, must_be)
    must_be = 'None where num_steps is not given'
    check(num_steps is not None, 'steps_per_epoch', steps_per_epoch, must_be)
    if not _is_traced(steps_per_epoch):
      check_number('steps_per_epoch', _value(steps_per_epoch), '[1, inf)')
  is_muon = isinstance(optimizer, Averaged) and isinstance(
    optimizer.inner, Muon
  )
  check(is_muon, 'optimizer', optimizer, 'a ScheduleFreeMuon(…)')
  must_be = 'None where the optimizer has no least_norm'
  follows = steps_per_epoch is None or optimizer.follows_epochs()
  check(follows, 'steps_per_epoch', steps_per_epoch, must_be)
  share = optimizer.one_minus_beta1
  must_be = 'below 1: at 1, y is z, and tells nothing of the average'
  check(share < 1.0, 'one_minus_beta1', share, must_be)


def _is_traced(number: Any) -> bool:
  """Whether it has no value yet, as an injected number in a compiled step."""
  return isinstance(number, jax.core.Tracer)


def _value(number: Any) -> Any:
  """The Python number in an array: optax.inject_hyperparams makes arrays."""
  is_array = isinstance(number, (jax.Array, np.ndarray))
  return number.item() if is_array and number.shape == () else number


def _check_not_shapes(params: Any) -> None:
  """Raises ValueError for shapes alone, which have no values to begin with."""
  for leaf in tree_leaves(params):
    is_array = not isinstance(leaf, jax.ShapeDtypeStruct)
    must_be = 'an array; of shapes alone, jax.eval_shape(tx.init, params) works'
    check(is_array, 'a leaf of params', leaf, must_be)


def _shapes_of(params: Any) -> Any:
  """The shapes of parameters, without the variables of nnx around them.

  nnx.Optimizer hands init such variables, and update the arrays in them.
  """

  def shape(leaf: Any) -> jax.ShapeDtypeStruct:
    must_be = 'an array, such as jnp.asarray(1.0)'
    check(hasattr(leaf, 'dtype'), 'a leaf of params', leaf, must_be)
    return jax.ShapeDtypeStruct(jnp.shape(leaf), leaf.dtype)

  return tree_map(shape, _bare(params))


def _size_of(params: Any, forms: tuple[Form, ...]) -> jax.Array:
  """As of `Muon.size`, in float32; the parameters may be traced."""

  @jax.jit
  def size(leaves: Any) -> jax.Array:
    size = spectral_size(jnp, RunStart(leaves, forms))
    size = jnp.asarray(size, jnp.float32)
    return jnp.where(jnp.isfinite(size), size, 1.0)

  return size(tree_leaves(params))

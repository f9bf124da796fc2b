"""Any optax optimizer that a loop hands over: its rate, and other schedules."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import keystr

from ..core.checks import check, check_choice, is_number
from ..core.schedules import Shape
from ..optimizers.clocked import TRANSFORMATION
from ..optimizers.step import Step
from .behaviour import Build

USABLE = (
  'a callable of learning_rate and, if it likes, weight_decay, such as '
  'optax.adamw (bind other arguments with functools.partial), or a '
  'transformation made by optax.inject_hyperparams(...)(learning_rate=0.0)'
)
# How the path of an injected learning rate ends.
_RATE = ".hyperparams['learning_rate']"
Scheduled = tuple[float, Shape]  # an argument's own value, and its factor


def build_of(
  optimizer: Any,
  params: Any,
  weight_decay: float,
  scheduled: Mapping[str, Scheduled] | None = None,
) -> Build:
  """How an optimizer is built from a `Step`.

  Args:
    optimizer: a callable of learning_rate, or of another first argument, and,
      if it likes, weight_decay; a transformation with a learning_rate of
      optax.inject_hyperparams; or an `Optimizer` of this project.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.
    weight_decay: for a callable with an argument of this name.
    scheduled: arguments of a callable that follow a shape; see `scheduled_in`.

  Returns:
    A function of a `Step` that makes a transformation. The transformation's
    state may be donated, saved and restored: its arrays are strongly typed, and
    no array is in it twice.

  Raises:
    ValueError: if several learning rates are injected and the first one is 0.
  """
  if hasattr(optimizer, 'build'):
    make = optimizer.build
  elif hasattr(optimizer, 'init') and hasattr(optimizer, 'update'):
    ratios = _ratios(optimizer, params)
    make = lambda step: _injected(optimizer, ratios, step.rate)
  else:
    parameters = inspect.signature(optimizer).parameters
    bound = getattr(optimizer, 'keywords', {})  # of a partial
    free = parameters.keys() - bound
    has_decay = 'weight_decay' in free
    required = [
      p.name
      for p in parameters.values()
      if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    by_name = 'learning_rate' in free and (
      required[:1] != ['learning_rate']
      # As is one after an argument that functools.partial has bound by name.
      or parameters['learning_rate'].kind is inspect.Parameter.KEYWORD_ONLY
    )

    def make(step: Step) -> Any:
      named: dict[str, Any] = {
        name: value * shape(step.passed)
        for name, (value, shape) in (scheduled or {}).items()
      }
      if has_decay:
        decay = named.get('weight_decay', weight_decay)
        named['weight_decay'] = decay * step.total_decay_factor
      if by_name:
        return optimizer(learning_rate=step.rate, **named)
      return optimizer(step.rate, **named) if required else optimizer(**named)

  def build(step: Step) -> Any:
    transformation = make(step)

    def init(params: Any) -> Any:
      copied = lambda x: jnp.array(x, jnp.result_type(x), copy=True)
      return jax.tree_util.tree_map(copied, transformation.init(params))

    def update(updates: Any, state: Any, params: Any, **more: Any) -> Any:
      full = _with_extra_args(transformation)
      updates, after = full.update(updates, state, params, **more)
      _check_structure(after, state)
      # The rate is a float32 and would turn a bfloat16 leaf into one.
      typed = lambda new, old: jnp.asarray(new, jnp.result_type(old))
      return updates, jax.tree_util.tree_map(typed, after, state)

    return TRANSFORMATION(init, update)

  return build


def _check_structure(after: Any, state: Any) -> None:
  """Raises ValueError if a step has changed the form of the state."""
  flat: Any = jax.tree_util.tree_flatten
  (new, form), (old, before) = flat(after), flat(state)
  if form == before and list(map(jnp.shape, new)) == list(map(jnp.shape, old)):
    return
  had, has = (
    {keystr(path): jnp.shape(leaf) for path, leaf in leaves}
    for leaves, _ in map(jax.tree_util.tree_flatten_with_path, (state, after))
  )
  changed = [path for path in {**had, **has} if had.get(path) != has.get(path)]
  what = f'the shape or the entries of {", ".join(changed)}'
  raise ValueError(
    f'its update changes {what if changed else "the containers"} in the state '
    'that its init has made'
  )


def takes_decay(optimizer: Any) -> bool:
  """Whether a weight decay of the chain's reaches the optimizer."""
  if hasattr(optimizer, 'build'):
    return True
  if hasattr(optimizer, 'init') or not callable(optimizer):
    return False
  bound = getattr(optimizer, 'keywords', {})
  return (
    'weight_decay' in inspect.signature(optimizer).parameters.keys() - bound
  )


def scheduled_in(
  optimizer: Any, weight_decay: float, schedules: Mapping[str, Shape]
) -> dict[str, Scheduled]:
  """The arguments of a callable that follow shapes, with their own values.

  Args:
    optimizer, weight_decay: see `build_of`.
    schedules: shapes by the names of arguments. An argument's own value is its
      bound value, its default or, for a free weight_decay, `weight_decay`.

  Raises:
    ValueError: if the optimizer is no callable, or has no such argument with a
      number.
  """
  is_made = hasattr(optimizer, 'init') or hasattr(optimizer, 'build')
  must_be = 'None unless optimizer is a callable, such as optax.adamw'
  check(callable(optimizer) and not is_made, 'schedules', schedules, must_be)
  known = {
    name: parameter.default
    for name, parameter in inspect.signature(optimizer).parameters.items()
    if name != 'learning_rate' and is_number(parameter.default)
  }
  if takes_decay(optimizer):
    known['weight_decay'] = weight_decay
  for name in schedules:
    check_choice('schedules', name, known)
  return {name: (known[name], shape) for name, shape in schedules.items()}


def _ratios(optimizer: Any, params: Any) -> dict[str, float]:
  """By path, each injected learning rate of a state over the first rate."""

  def rates(params: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(optimizer.init(params))[0]
    named = [(keystr(path), leaf) for path, leaf in leaves]
    return [pair for pair in named if pair[0].endswith(_RATE)]

  def values() -> list[Any]:
    zeros = lambda like: jnp.zeros(like.shape, like.dtype)
    named = rates(jax.tree_util.tree_map(zeros, params))
    return [leaf for _, leaf in named]

  paths: list[str] = []
  jax.eval_shape(lambda tree: paths.extend(p for p, _ in rates(tree)), params)
  if len(paths) < 2:
    return dict.fromkeys(paths, 1.0)
  # Nothing but the rates is computed.
  numbers = [float(rate) for rate in jax.jit(values)()]
  if len(set(numbers)) == 1:
    return dict.fromkeys(paths, 1.0)
  if not math.isfinite(numbers[0]) or numbers[0] == 0:
    shown = ', '.join(f'{rate:g}' for rate in numbers)
    raise ValueError(
      f'its injected learning rates are {shown}: the others keep their ratio '
      'to the first one, which must not be 0'
    )
  return {path: rate / numbers[0] for path, rate in zip(paths, numbers)}


def _injected(optimizer: Any, ratios: Mapping[str, float], rate: Any) -> Any:
  """A transformation whose injected rates are set before each update."""

  def with_rate(path: Any, leaf: Any) -> Any:
    ratio = ratios.get(keystr(path))
    return leaf if ratio is None else (rate * ratio).astype(leaf.dtype)

  def update(updates: Any, state: Any, params: Any = None, **more: Any) -> Any:
    state = jax.tree_util.tree_map_with_path(with_rate, state)
    return _with_extra_args(optimizer).update(updates, state, params, **more)

  return TRANSFORMATION(optimizer.init, update)


def _with_extra_args(optimizer: Any) -> Any:
  """The transformation with an update that takes further arguments, and may
  ignore them."""
  support = getattr(optax, 'with_extra_args_support', lambda it: it)
  # optax.MultiSteps is not of this type, and takes further arguments.
  is_bare = isinstance(optimizer, optax.GradientTransformation)
  return support(optimizer) if is_bare else optimizer

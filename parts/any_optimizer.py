"""Any optax optimizer, built with the numbers of a step of the cycles."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..core.checks import check
from ..core.cycle import StepNumbers
from ..soft_reset import depends_on_first

Build = Callable[[StepNumbers], optax.GradientTransformation]
# optax 0.1.5 has one kind of transformation.
TRANSFORMATION = getattr(
  optax, 'GradientTransformationExtraArgs', optax.GradientTransformation
)
_USABLE = (
  'a callable of learning_rate and, if it likes, weight_decay, such as '
  'optax.adamw (bind other arguments with functools.partial), or a '
  'transformation made by optax.inject_hyperparams(...)(learning_rate=0.0)'
)


def build_of(optimizer: Any) -> Build:
  """How to build an optimizer with a step's learning rate and weight decay.

  Args:
    optimizer: a callable or a transformation; see `Cycles`.

  Raises:
    ValueError: if nothing says how the learning rate gets in.
  """
  if hasattr(optimizer, 'init') and hasattr(optimizer, 'update'):
    return lambda numbers: _injected(optimizer, numbers.rate)
  check(callable(optimizer), 'optimizer', optimizer, _USABLE)
  parameters = inspect.signature(optimizer).parameters
  needed = [
    name
    for name, each in parameters.items()
    if each.default is each.empty
    and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
  ]
  bound = getattr(optimizer, 'keywords', {})  # of a functools.partial
  free = parameters.keys() - bound.keys()
  known = [name for name in ('learning_rate', 'weight_decay') if name in free]
  has_rate = 'learning_rate' in known
  is_usable = set(needed) <= set(known) if has_rate else len(needed) in (1, 2)
  name = getattr(optimizer, '__qualname__', optimizer)
  check(is_usable, 'optimizer', f'{name}({", ".join(needed)})', _USABLE)

  def build(numbers: StepNumbers) -> optax.GradientTransformation:
    values = [numbers.rate, numbers.weight_decay]
    if not has_rate:
      return optimizer(*values[: len(needed)])
    return optimizer(**dict(zip(known, values)))

  return build


def _injected(optimizer: Any, rate: Any) -> optax.GradientTransformation:
  """A transformation whose injected learning rate is set before each update."""

  def with_rate(path: Any, leaf: Any) -> Any:
    keys = [getattr(key, 'name', getattr(key, 'key', '')) for key in path]
    is_rate = keys[-2:] == ['hyperparams', 'learning_rate']
    return rate.astype(leaf.dtype) if is_rate else leaf

  def update(updates: Any, state: Any, params: Any = None, **more: Any) -> Any:
    state = jax.tree_util.tree_map_with_path(with_rate, state)
    return with_extra_args(optimizer).update(updates, state, params, **more)

  made: optax.GradientTransformation = TRANSFORMATION(optimizer.init, update)
  return made


def with_extra_args(optimizer: Any) -> Any:
  """The transformation, taking and ignoring further arguments if it must."""
  support = getattr(optax, 'with_extra_args_support', lambda it: it)
  # optax.MultiSteps is none of this type, and takes them.
  is_bare = isinstance(optimizer, optax.GradientTransformation)
  return support(optimizer) if is_bare else optimizer


def check_rate(build: Build, numbers: StepNumbers, params: Any) -> None:
  """Refuses an optimizer that would train at a rate of its own.

  Args:
    build: of `build_of`.
    numbers: of any step.
    params: tree of jax.ShapeDtypeStruct.

  Raises:
    ValueError: if the updates do not depend on the learning rate, or nothing
      has been built that makes updates.
  """
  made = build(numbers)
  is_optax = hasattr(made, 'init') and hasattr(made, 'update')
  check(is_optax, 'optimizer', made, _USABLE)
  state = jax.eval_shape(made.init, params)
  grads = params.fast if isinstance(params, optax.LookaheadParams) else params

  def update(rate: jax.Array, grads: Any, state: Any, params: Any) -> Any:
    return build(numbers._replace(rate=rate)).update(grads, state, params)[0]

  try:
    used = depends_on_first(update, jnp.float32(0), grads, state, params)
  except (TypeError, ValueError):  # it wants arguments that only the loop knows
    return
  if not any(used):
    raise ValueError(
      'optimizer: its updates would be the same whatever the learning rate of '
      f'the cycles. It must be {_USABLE}; a number or a schedule of its own '
      'in the place of learning_rate stays in force.'
    )

"""Any optax optimizer, as loops bring it: driven by the clock, and reset."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..core.cycle import StepNumbers
from ..core.optimizers import OptState, numbers_at
from ..core.schedules import CycleClock, PlannedCycle
from ..soft_reset import (
  COUNT,
  ITERATE,
  KEPT,
  MOMENT,
  WEIGHT,
  Roles,
  depends_on_first,
)

USABLE = (
  'a callable of learning_rate and, if it likes, weight_decay, such as '
  'optax.adamw (bind other arguments with functools.partial), or a '
  'transformation made by optax.inject_hyperparams(...)(learning_rate=0.0)'
)
# optax 0.1.5 has one kind of transformation.
TRANSFORMATION: type[optax.GradientTransformation] = getattr(
  optax, 'GradientTransformationExtraArgs', optax.GradientTransformation
)


def clocked(
  optimizer: Any, cycles: Sequence[PlannedCycle], clock: CycleClock, params: Any
) -> Any:
  """The optimizer, with the numbers of the clock's cycle at every step.

  Args:
    optimizer: a callable of learning_rate and, if it likes, weight_decay, or of
      one or two required arguments of other names; a transformation with a
      learning_rate of optax.inject_hyperparams; or a `core.cycle.Optimizer`.
    cycles: the chain.
    clock: that of the first step.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.

  Returns:
    An optax transformation whose state is an OptState, to be donated, saved and
    restored: its arrays are strongly typed, and none is in it twice.

  Raises:
    AttributeError, TypeError, ValueError: if the optimizer is none of these, or
      its updates do not depend on the learning rate.
  """
  build = _build_of(optimizer)
  _check_rate(build, numbers_at(clock, cycles), params)

  def init(params: Any) -> OptState:
    own = build(numbers_at(clock, cycles))
    return jax.tree_util.tree_map(
      lambda x: jnp.array(x, jnp.result_type(x), copy=True),
      OptState(clock, own.init(params)),
    )

  def update(
    updates: Any, state: OptState, params: Any = None, **more: Any
  ) -> tuple[Any, OptState]:
    clock, before = state
    own = _with_extra_args(build(numbers_at(clock, cycles)))
    updates, after = own.update(updates, before, params, **more)
    # The clock's numbers are float32 and would turn a bfloat16 leaf into that.
    after = jax.tree_util.tree_map(
      lambda new, old: jnp.asarray(new, jnp.result_type(old)), after, before
    )
    return updates, OptState(clock._replace(count=clock.count + 1), after)

  return TRANSFORMATION(init, update)


def _build_of(optimizer: Any) -> Callable[[StepNumbers], Any]:
  """How the optimizer is built with a step's learning rate and weight decay."""
  if hasattr(optimizer, 'build'):
    return optimizer.build
  if hasattr(optimizer, 'init') and hasattr(optimizer, 'update'):
    return lambda numbers: _injected(optimizer, numbers.rate)
  parameters = inspect.signature(optimizer).parameters
  various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
  required = [
    p
    for p in parameters.values()
    if p.default is p.empty and p.kind not in various
  ]
  free = parameters.keys() - getattr(optimizer, 'keywords', {})  # of a partial
  names = [name for name in ('learning_rate', 'weight_decay') if name in free]

  def build(numbers: StepNumbers) -> Any:
    values = [numbers.rate, numbers.weight_decay]
    if 'learning_rate' in names:
      return optimizer(**dict(zip(names, values)))
    return optimizer(*values[: len(required)])

  return build


def _check_rate(
  build: Callable[[StepNumbers], Any], numbers: StepNumbers, params: Any
) -> None:
  """Refuses an optimizer that would train at a rate of its own."""
  state = jax.eval_shape(build(numbers).init, params)
  grads = params.fast if isinstance(params, optax.LookaheadParams) else params

  def update(rate: jax.Array, grads: Any, state: Any, params: Any) -> Any:
    return build(numbers._replace(rate=rate)).update(grads, state, params)[0]

  try:
    used = depends_on_first(update, jnp.float32(0), grads, state, params)
  except (TypeError, ValueError):  # it wants arguments that only the loop knows
    return
  if not any(used):
    raise ValueError(
      'its updates would be the same whatever the learning rate of the cycles: '
      'a number or a schedule of its own stays in force'
    )


def _injected(optimizer: Any, rate: Any) -> Any:
  """A transformation whose injected learning rate is set before each update."""

  def with_rate(path: Any, leaf: Any) -> Any:
    name = jax.tree_util.keystr(path)
    is_rate = name.endswith(".hyperparams['learning_rate']")
    return rate.astype(leaf.dtype) if is_rate else leaf

  def update(updates: Any, state: Any, params: Any = None, **more: Any) -> Any:
    state = jax.tree_util.tree_map_with_path(with_rate, state)
    return _with_extra_args(optimizer).update(updates, state, params, **more)

  return TRANSFORMATION(optimizer.init, update)


def _with_extra_args(optimizer: Any) -> Any:
  """The transformation, taking and ignoring further arguments if it must."""
  support = getattr(optax, 'with_extra_args_support', lambda it: it)
  # optax.MultiSteps is none of this type, and takes them.
  is_bare = isinstance(optimizer, optax.GradientTransformation)
  return support(optimizer) if is_bare else optimizer


def roles_of(
  init: Callable[[Any], Any], params: Any
) -> tuple[Roles, tuple[str, ...]]:
  """`soft_reset.roles_of` for the state of any optax optimizer.

  What mirrors a parameter may have one more index (SM3) or fewer dimensions
  (Adafactor), or lie in one half of lookahead's parameters. Scalars next to
  such trees are counts or the weight of an average. The rest is kept: the
  counts of schedules, injected hyperparameters.

  Args:
    init: the optimizer's.
    params: tree of anything with a shape and a dtype.

  Returns:
    The roles, and the paths of leaves that a blended model may leave without a
    meaning: what remembers several steps (L-BFGS) or the loss (line searches).
  """
  targets = list(enumerate(jax.tree_util.tree_flatten_with_path(params)[0]))
  # Only one of the two has a state.
  if isinstance(params, optax.LookaheadParams):
    targets += [(i, (path[1:], param)) for i, (path, param) in targets]
  targets.sort(key=lambda target: -len(target[1][0]))
  state = jax.eval_shape(init, params)
  found, treedef = jax.tree_util.tree_flatten_with_path(state)
  spots = [_spot(path, leaf, targets) for path, leaf in found]
  homes = {_home(spot[0]) for spot in spots if spot}
  roles, sources, doubtful = [], [], []
  for (path, leaf), spot, is_iterate in zip(
    found, spots, depends_on_first(init, params)
  ):
    is_real = jnp.issubdtype(leaf.dtype, jnp.inexact)
    if spot and is_real and len(leaf.shape) <= len(spot[2]):
      is_iterate &= leaf.shape == spot[2]
      roles.append(ITERATE if is_iterate else MOMENT)
      sources += [spot[1]] * is_iterate
    elif not spot and path[:-1] not in homes:
      roles.append(KEPT)
    else:
      name = getattr(path[-1], 'name', '')
      roles.append(WEIGHT if name == 'weight_sum' else COUNT)
      if (spot and is_real) or name == 'value':
        doubtful.append(jax.tree_util.keystr(path))
  return Roles(treedef, tuple(roles), tuple(sources)), tuple(doubtful)


def _home(path: Any) -> Any:
  """The path of the state that a tree is a field of, or one of a field's."""
  while path and isinstance(path[-1], jax.tree_util.SequenceKey):
    path = path[:-1]
  return path[:-1]


def _spot(path: Any, leaf: Any, targets: Any) -> tuple[Any, int, Any] | None:
  """(path of the tree that mirrors the parameters, index and shape there).

  Behind the parameter's path there may be one more index, as in SM3. If the
  parameters are a single array, which has no path, its shape decides.
  """
  for index, (target, param) in targets:
    if not target and leaf.shape == param.shape:
      return path, index, param.shape
    for end in (len(path), len(path) - 1) if target else ():
      start = end - len(target)
      if start > 0 and path[start:end] == target:
        return path[:start], index, param.shape
  return None

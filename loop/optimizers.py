"""Any optax optimizer, as loops bring it: its rate, and what a reset does."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import SequenceKey, keystr, tree_flatten_with_path

from ..core.checks import check, check_choice, is_number
from ..core.model_reset import COUNT, ITERATE, KEPT, MOMENT, role_by_field
from ..core.optimizers import Optimizer, Step
from ..core.schedules import Shape

USABLE = (
  'a callable of learning_rate and, if it likes, weight_decay, such as '
  'optax.adamw (bind other arguments with functools.partial), or a '
  'transformation made by optax.inject_hyperparams(...)(learning_rate=0.0)'
)
# optax 0.1.5 has one kind of transformation.
TRANSFORMATION: type[optax.GradientTransformation] = getattr(
  optax, 'GradientTransformationExtraArgs', optax.GradientTransformation
)
# The key of the optimizer's state in a `Model`.
OPT_STATE = jax.tree_util.GetAttrKey('opt_state')
# How the path of an injected learning rate ends.
_RATE = ".hyperparams['learning_rate']"
Build = Callable[[Step], Any]  # makes the transformation of one step
Scheduled = tuple[float, Shape]  # an argument's own value, and its factor


def build_of(
  optimizer: Any,
  params: Any,
  weight_decay: float,
  scheduled: Mapping[str, Scheduled] | None = None,
) -> Build:
  """How an optimizer is built with what a step is told.

  Args:
    optimizer: a callable of learning_rate, or of another first argument, and, if
      it likes, weight_decay; a transformation with a learning_rate of
      optax.inject_hyperparams; or an `Optimizer` of the core.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.
    weight_decay: for a callable that takes one of this name.
    scheduled: arguments of a callable that follow a shape; see `scheduled_in`.

  Returns:
    A function of a `Step`. The state of what it makes may be donated, saved and
    restored: its arrays are strongly typed, and none is in it twice.

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
    by_name = 'learning_rate' in free and required[:1] != ['learning_rate']

    def make(step: Step) -> Any:
      named: dict[str, Any] = {
        name: value * shape(step.passed)
        for name, (value, shape) in (scheduled or {}).items()
      }
      if has_decay:
        own = named.get('weight_decay', weight_decay)
        named['weight_decay'] = own * step.weight_decay
      if by_name:
        return optimizer(learning_rate=step.rate, **named)
      return optimizer(step.rate, **named) if required else optimizer(**named)

  def build(step: Step) -> Any:
    made = make(step)

    def init(params: Any) -> Any:
      copied = lambda x: jnp.array(x, jnp.result_type(x), copy=True)
      return jax.tree_util.tree_map(copied, made.init(params))

    def update(updates: Any, state: Any, params: Any, **more: Any) -> Any:
      full = _with_extra_args(made)
      updates, after = full.update(updates, state, params, **more)
      # The rate is a float32 and would turn a bfloat16 leaf into one.
      typed = lambda new, old: jnp.asarray(new, jnp.result_type(old))
      return updates, jax.tree_util.tree_map(typed, after, state)

    return TRANSFORMATION(init, update)

  return build


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
    schedules: shapes by the names of arguments. An argument's own value is what
      is bound to it, its default or, for a free weight_decay, the one given.

  Raises:
    ValueError: if the optimizer is no callable, or has no such argument with a
      number.
  """
  is_made = hasattr(optimizer, 'init') or hasattr(optimizer, 'build')
  right = 'None unless optimizer is a callable, such as optax.adamw'
  check(callable(optimizer) and not is_made, 'schedules', schedules, right)
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
  """By path, each injected learning rate of a state over the first of them."""

  def rates(params: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(optimizer.init(params))[0]
    named = [(keystr(path), leaf) for path, leaf in leaves]
    return [pair for pair in named if pair[0].endswith(_RATE)]

  def values() -> list[Any]:
    zeros = lambda like: jnp.zeros(like.shape, like.dtype)
    begun = rates(jax.tree_util.tree_map(zeros, params))
    return [leaf for _, leaf in begun]

  paths: list[str] = []
  jax.eval_shape(lambda tree: paths.extend(p for p, _ in rates(tree)), params)
  if len(paths) < 2:
    return dict.fromkeys(paths, 1.0)
  # Nothing but the rates is computed.
  found = [float(rate) for rate in jax.jit(values)()]
  if len(set(found)) == 1:
    return dict.fromkeys(paths, 1.0)
  if not math.isfinite(found[0]) or found[0] == 0:
    raise ValueError(
      f'its injected learning rates are {", ".join(f"{r:g}" for r in found)}: the '
      'others keep their ratio to the first one, which must not be 0'
    )
  return {path: rate / found[0] for path, rate in zip(paths, found)}


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
  """The transformation, taking and ignoring further arguments if it must."""
  support = getattr(optax, 'with_extra_args_support', lambda it: it)
  # optax.MultiSteps is none of this type, and takes them.
  is_bare = isinstance(optimizer, optax.GradientTransformation)
  return support(optimizer) if is_bare else optimizer


def frozen_in(build: Build, params: Any) -> list[bool]:
  """For each parameter, whether the optimizer leaves it untrained.

  It trains what it updates by the leaf's own gradient and the learning rate. An
  optimizer whose update wants arguments that only the loop knows is taken to
  train everything.

  Args:
    build: see `build_of`.
    params: tree of jax.ShapeDtypeStruct, such as will be trained.

  Raises:
    ValueError: if no update depends on the learning rate.
  """
  rate = jnp.float32(0)
  state = jax.eval_shape(build(Step(rate)).init, params)
  # lookahead's parameters are two copies, with one gradient for both.
  grads = params.fast if isinstance(params, optax.LookaheadParams) else params

  def update(rate: jax.Array, grads: Any, state: Any, params: Any) -> Any:
    return build(Step(rate)).update(grads, state, params)[0]

  try:
    reached = _inputs_of(update, rate, grads, state, params)
  except (TypeError, ValueError):
    return [False] * len(jax.tree_util.tree_leaves(params))
  if not any(inputs & 1 for inputs in reached):
    raise ValueError(
      'its updates would be the same whatever the learning rate of the cycles: '
      'a number or a schedule of its own stays in force'
    )
  count = len(jax.tree_util.tree_leaves(grads))
  needed = [1 | 2 << i % count for i in range(len(reached))]
  return [inputs & need != need for inputs, need in zip(reached, needed)]


def _inputs_of(fn: Callable[..., Any], *args: Any) -> list[int]:
  """For each leaf that fn returns, on which input leaves it depends, as bits."""
  jaxpr = jax.make_jaxpr(fn)(*args).jaxpr
  return _traced(jaxpr, [1 << i for i in range(len(jaxpr.invars))])


def _traced(jaxpr: Any, inputs: list[int]) -> list[int]:
  found = {id(var): bits for var, bits in zip(jaxpr.invars, inputs)}
  of: Callable[[Any], list[int]] = lambda variables: [
    found.get(id(var), 0) for var in variables
  ]
  union: Any = functools.partial(functools.reduce, operator.or_)
  for equation in jaxpr.eqns:
    given, params = of(equation.invars), equation.params
    if 'branches' in params:  # of a cond; the first input chooses
      rows = [_traced(b.jaxpr, given[1:]) for b in params['branches']]
      bits = [union([given[0], *column]) for column in zip(*rows)]
    elif hasattr(params.get('jaxpr'), 'jaxpr') and 'length' not in params:
      bits = _traced(params['jaxpr'].jaxpr, given)  # of a jit
    else:
      bits = [union(given, 0)] * len(equation.outvars)
    found.update(zip(map(id, equation.outvars), bits))
  return of(jaxpr.outvars)


def roles_of(
  init: Callable[[Any], Any],
  params: Any,
  frozen: list[bool],
  declared: Optimizer | None = None,
) -> tuple[dict[str, int], list[str]]:
  """What a reset does to each leaf of an optax optimizer's state.

  What mirrors a parameter is an iterate if its first value depends on those of
  the parameters, else a moment. It may have one more index (SM3) or fewer
  dimensions (Adafactor), or lie in one half of lookahead's parameters. Scalars
  next to such trees are counts, or the weight of an average, which is blended.
  The rest is kept: the counts of schedules, injected hyperparameters.

  Args:
    init: the optimizer's.
    params: tree of anything with a shape and a dtype.
    frozen: for each parameter, whether it, and what mirrors it, is kept.
    declared: the optimizer, where it is one that names its fields' roles.

  Returns:
    Path -> role, and the paths of leaves that a blended model may leave without
    a meaning: what remembers several steps (L-BFGS) or the loss (line search).
  """
  targets = list(enumerate(tree_flatten_with_path(params)[0]))
  # Only one of the two has a state.
  if isinstance(params, optax.LookaheadParams):
    targets += [(i, (path[1:], param)) for i, (path, param) in targets]
  targets.sort(key=lambda target: -len(target[1][0]))
  found = tree_flatten_with_path(jax.eval_shape(init, params))[0]
  spots = [next(_spots(path, leaf, targets), None) for path, leaf in found]
  homes = {_home(spot[0]) for spot in spots if spot}
  roles, doubtful = {}, []
  for (path, leaf), spot, inputs in zip(found, spots, _inputs_of(init, params)):
    is_real, role = jnp.issubdtype(leaf.dtype, jnp.inexact), KEPT
    name = getattr(path[-1], 'name', '')
    if spot and frozen[spot[1]]:
      pass
    elif declared:
      role = role_by_field(declared, (OPT_STATE, *path))
    elif spot and is_real and len(leaf.shape) <= len(spot[2]):
      role = ITERATE if inputs and leaf.shape == spot[2] else MOMENT
    elif spot or path[:-1] in homes:
      role = ITERATE if name == 'weight_sum' else COUNT
      if (spot and is_real) or name == 'value':
        doubtful.append(keystr(path))
    roles[keystr(path)] = role
  return roles, doubtful


def _home(path: Any) -> Any:
  """The path of the state that a tree is a field of, or one of a field's."""
  while path and isinstance(path[-1], SequenceKey):
    path = path[:-1]
  return path[:-1]


def _spots(
  path: Any, leaf: Any, targets: Any
) -> Iterator[tuple[Any, int, Any]]:
  """(path of the tree that mirrors the parameters, index and shape there).

  Behind the parameter's path there may be one more index, as in SM3. If the
  parameters are a single array, which has no path, its shape decides.
  """
  for index, (target, param) in targets:
    if not target and leaf.shape == param.shape:
      yield path, index, param.shape
    for end in (len(path), len(path) - 1) if target else ():
      start = end - len(target)
      if start > 0 and path[start:end] == target:
        yield path[:start], index, param.shape

"""The soft reset: how much of a model is replaced, and how.

  tau        the share of the way from an untrained model to the target that is
             left
  params  <- (1 - tau) * params + tau * fresh params
  moments <- (1 - tau * alpha) * moments

Batch statistics follow the parameters that they belong to, and so do the
iterates of an optimizer that keeps parameters of its own. Two kinds of counts
could be touched by a reset. That of the cycle clock never is. The optimizer's
own (bias correction) begin again only together with the moments, in a full
reset: with moments kept, that would change the scale of the updates.

`model_reinit_schedule` applies the formulas to a model on the devices.

Source: thesis, section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .core import reset_checks
from .core.checks import check, check_choice, check_number
from .core.devices import Devices
from .core.workload import Target

SCALES = ('log', 'linear')


def distance(
  metric: float, target: Target, first_metric: float, scale: str = 'log'
) -> float:
  """The share of the way from an untrained model to the target that is left.

    rising:           1 - y / y*, the thesis
    falling, log:     log(y / y*) / log(y0 / y*)
    falling, linear:  (y - y*) / (y0 - y*)

  The thesis has no formula for metrics that fall. On a log scale perplexity,
  word error rate and error rate behave alike. On the linear one a classifier is
  treated alike whether its accuracy is written down or its error rate, from an
  untrained accuracy of 0. Where the first evaluation does not serve (missing,
  not finite or no worse than the target) a falling metric uses 1 - y* / y.

  Example: at an accuracy of 0.6 with a target of 0.8, a quarter is left. At an
  error rate of 0.4, with a target of 0.2 and 1 at first, .43 is left on the log
  scale and .25 on the linear one.

  Args:
    metric: y, the validation metric of an evaluation.
    target: y* and its direction.
    first_metric: y0, the metric of the run's first evaluation.
    scale: 'log' or 'linear', that of a metric that falls.

  Returns:
    The share: 0 at the target, below 0 beyond it, above 1 where the metric is
    worse than at first; NaN if the metric is not finite. Where no formula makes
    sense, at a target of 0 or less, 0.

  Source: thesis, section 3.3.2; the falling forms are ours.
  """
  goal = target.value
  if not math.isfinite(metric):
    return math.nan
  if not goal > 0:
    return 0.0
  if target.rising:
    return 1.0 - metric / goal
  if not goal < first_metric < math.inf:
    return 1.0 - goal / metric if metric > 0 else -math.inf
  if scale == 'linear':
    return (metric - goal) / (first_metric - goal)
  if metric <= 0:
    return -math.inf
  return math.log(metric / goal) / math.log(first_metric / goal)


def progress(
  metric: float, target: Target, first_metric: float, scale: str = 'linear'
) -> float:
  """The share of the way that a metric has come: 1 - `distance`."""
  return 1.0 - distance(metric, target, first_metric, scale)


def tau(
  metric: float, target: Target, first_metric: float, scale: str = 'log'
) -> float:
  """The share of fresh values in a soft reset: `distance`, clipped to [0, 1].

  Example: at .6 of the way to the target, tau is .4. A metric that is not
  finite gives 1.
  """
  left = distance(metric, target, first_metric, scale)
  return 1.0 if math.isnan(left) else min(max(left, 0.0), 1.0)


def check_target(target: Target) -> None:
  """Raises ValueError unless tau is defined for this validation target."""
  check(
    math.isfinite(target.value) and target.value > 0,
    'validation_target_value',
    target.value,
    'finite and above 0 where a soft reset needs tau',
  )


class ResetPlan(NamedTuple):
  """What a reset does to parameters, moments and the optimizer's counts."""

  tau: float  # share of fresh values in parameters and batch statistics
  keep_moments: float  # factor on the optimizer's moments
  keep_counts: bool  # whether the optimizer's counts go on

  @property
  def touches_nothing(self) -> bool:
    """Whether the model stays as it is."""
    return self.tau == 0 and self.keep_moments == 1


FULL = ResetPlan(1.0, 0.0, False)


class Reset(Protocol):
  """What the start of a further cycle does to the model of the one before."""

  def plan(self, tau: float) -> ResetPlan:
    """The plan for this distance to the goal."""


@dataclasses.dataclass(frozen=True)
class SoftReset:
  """Blends the model with a fresh one by tau; shrinks moments by alpha * tau.

  Attributes:
    alpha: share of tau that the moments get, in [0, 1].
    scale: scale of tau for a metric that falls, 'log' or 'linear'.

  Source: thesis, section 3.3.2.
  """

  alpha: float = 0.5
  scale: str = 'log'

  def __post_init__(self) -> None:
    check_number('alpha', self.alpha, '[0, 1]')
    check_choice('scale', self.scale, SCALES)

  def plan(self, tau: float) -> ResetPlan:
    """tau .25 and alpha .5 keep .75 of the model and .875 of the moments."""
    return ResetPlan(tau, 1.0 - tau * self.alpha, True)


@dataclasses.dataclass(frozen=True)
class FullReset:
  """Replaces the parameters and empties the optimizer (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    """See `Reset`."""
    del tau
    return FULL


@dataclasses.dataclass(frozen=True)
class KeptMomentum:
  """Replaces the parameters only (thesis, 3.2.2)."""

  def plan(self, tau: float) -> ResetPlan:
    """See `Reset`."""
    del tau
    return ResetPlan(1.0, 1.0, True)


@dataclasses.dataclass(frozen=True)
class Cyclic:
  """Touches nothing: a warm restart of the learning rate."""

  def plan(self, tau: float) -> ResetPlan:
    """See `Reset`."""
    del tau
    return ResetPlan(0.0, 1.0, True)


def blend(old: jax.Array, fresh: jax.Array, share: jax.Array) -> jax.Array:
  """(1 - share) * old + share * fresh, exact at both ends.

  Selected, not multiplied, where a product could be 0 * NaN: share = 0 gives
  old, share = 1 and non-finite elements of old give fresh. Integers, which
  cannot be blended, change at share = 1 only.

  Args:
    old, fresh: of one shape; fresh may be of another dtype.
    share: shape=(), the share of fresh.

  Returns:
    An array of old's shape and dtype.
  """
  if not jnp.issubdtype(old.dtype, jnp.inexact):
    return jnp.where(share >= 1, fresh, old)
  blended = optax.incremental_update(fresh, old, share).astype(old.dtype)
  take_fresh = (share >= 1) | ~jnp.isfinite(old)
  return jnp.where(
    share <= 0, old, jnp.where(take_fresh, fresh.astype(old.dtype), blended)
  )


def shrink(moment: jax.Array, keep: jax.Array) -> jax.Array:
  """keep * moment, with zero where that is not finite or keep is 0.

  Args:
    moment: of any shape.
    keep: shape=(), the factor.

  Returns:
    An array of the moment's shape and dtype.
  """
  kept = (keep * moment).astype(moment.dtype)
  return jnp.where(jnp.isfinite(moment) & (keep > 0), kept, 0)


class Model(NamedTuple):
  """What a reset may change. Leaves are laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # one optimizer's, without the clock


# What a reset does to a leaf of an optimizer's state.
MOMENT, ITERATE, COUNT, WEIGHT, KEPT = range(5)


class Roles(NamedTuple):
  """The leaves of an optimizer's state.

  Attributes:
    treedef: the state's structure.
    roles: of each leaf, MOMENT to KEPT.
    sources: of each iterate, the index of the parameter that it mirrors.
  """

  treedef: Any
  roles: tuple[int, ...]
  sources: tuple[int, ...]


def roles_of(init: Callable[[Any], Any], params: Any) -> Roles:
  """What a reset does to each leaf of an optimizer's state.

  A leaf mirrors a parameter if its path ends with the parameter's, as in every
  optax transformation. It is an iterate if its first value depends on those of
  the parameters (Schedule-Free's z), else a moment. Of the rest, the weight of
  an average is known by its name; the others are counts, which begin again
  with the moments.

  Args:
    init: the optimizer's.
    params: tree of anything with a shape and a dtype.
  """
  targets = jax.tree_util.tree_flatten_with_path(params)[0]
  index = {path: i for i, (path, _) in enumerate(targets)}
  state = jax.eval_shape(init, params)
  found, treedef = jax.tree_util.tree_flatten_with_path(state)
  roles, sources = [], []
  for (path, leaf), is_iterate in zip(found, depends_on_first(init, params)):
    ends = [path[i:] for i in range(1, len(path)) if path[i:] in index]
    if ends:
      i = index[ends[0]]
      is_iterate &= leaf.shape == targets[i][1].shape
      roles.append(ITERATE if is_iterate else MOMENT)
      sources += [i] * is_iterate
    else:
      name = getattr(path[-1], 'name', '')
      roles.append(WEIGHT if name == 'weight_sum' else COUNT)
  return Roles(treedef, tuple(roles), tuple(sources))


def depends_on_first(fn: Callable[..., Any], *args: Any) -> list[bool]:
  """For each leaf that fn returns, whether it depends on the first argument."""
  jaxpr = jax.make_jaxpr(fn)(*args).jaxpr
  number = len(jax.tree_util.tree_leaves(args[0]))
  reached = set(map(id, jaxpr.invars[:number]))
  for equation in jaxpr.eqns:
    if any(id(var) in reached for var in equation.invars):
      reached |= set(map(id, equation.outvars))
  return [id(var) in reached for var in jaxpr.outvars]


def _blend_step(
  old: jax.Array, fresh: jax.Array, share: jax.Array
) -> tuple[jax.Array, reset_checks.Leaf, reset_checks.Leaf]:
  new = blend(old, fresh, share)
  return new, reset_checks.sample(old), reset_checks.sample(new)


def _shrink_step(
  old: jax.Array, keep: jax.Array
) -> tuple[jax.Array, reset_checks.Leaf, reset_checks.Leaf]:
  new = shrink(old, keep)
  return new, reset_checks.sample(old), reset_checks.sample(new)


def _all_finite(leaves: Sequence[jax.Array]) -> jax.Array:
  finite = [jnp.all(jnp.isfinite(leaf)) for leaf in leaves]
  return jnp.all(jnp.stack(finite))


def _judged_leaves(model: Model, roles: Roles) -> list[Any]:
  """The leaves of which a broken one breaks the model."""
  parts = roles.treedef.flatten_up_to(model.opt_state)
  judged = [p for p, role in zip(parts, roles.roles) if role != KEPT]
  return jax.tree_util.tree_leaves((model.params, model.model_state, judged))


def is_finite(model: Model, roles: Roles, devices: Devices) -> bool:
  """Whether parameters, statistics and the optimizer's state are finite."""
  found = devices.run(_all_finite, _judged_leaves(model, roles))
  return bool(np.all(jax.device_get(found)))


def compile_resets(shapes: Model, roles: Roles, devices: Devices) -> None:
  """Compiles what a reset runs before training, so that it compiles nothing.

  Args:
    shapes: tree of jax.ShapeDtypeStruct, without device axis.
    roles: of the optimizer's state.
    devices: how leaves are laid out; gets the programs. Leaves of equal shape
      share one.
  """
  share = jax.ShapeDtypeStruct((), np.float32)
  devices.prepare(_all_finite, _judged_leaves(shapes, roles))
  parts = roles.treedef.flatten_up_to(shapes.opt_state)
  of = {
    role: [p for p, r in zip(parts, roles.roles) if r == role]
    for role in (MOMENT, ITERATE, COUNT, WEIGHT)
  }
  blended = (shapes.params, shapes.model_state, of[ITERATE])
  for leaf in jax.tree_util.tree_leaves(blended):
    host = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    devices.prepare(_blend_step, leaf, host, share, donate=True)
  for leaf in jax.tree_util.tree_leaves((of[MOMENT], of[WEIGHT])):
    devices.prepare(_shrink_step, leaf, share, donate=True)
  for leaf in jax.tree_util.tree_leaves(of[COUNT]):
    devices.put(np.zeros((), leaf.dtype))  # under pmap, a program as well


def model_reinit_schedule(
  model: Model,
  fresh: tuple[Any, Any],
  plan: ResetPlan,
  roles: Roles,
  devices: Devices,
) -> Model:
  """Resets a model at the start of a cycle, and checks that it was done.

  A reset goes leaf by leaf, with the old leaf donated and the fresh one on the
  host: besides the model, only one leaf and the samples are on the devices
  (whoever makes the fresh model may need room for it there before). The
  checks recompute the formula on the host for up to 64 elements of every leaf
  and, under pmap, of every replica.

  Args:
    model: parameters, batch statistics and optimizer state; the leaves that
      change are donated.
    fresh: (params, model_state) of a new initialisation, as host arrays of the
      model's sizes without device axis. If model_state has no leaves, there are
      no fresh statistics.
    plan: what is to be done.
    roles: of the optimizer's state.
    devices: how the leaves are laid out.

  Returns:
    The model with which the cycle starts, laid out as before.

  Raises:
    RuntimeError: if a check fails.

  Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
  """
  if plan.touches_nothing:
    return model
  fresh_params, fresh_state = fresh

  fresh_leaves = jax.tree_util.tree_leaves(fresh_params)
  sources = iter(roles.sources)

  def reset(part: Any, role: int) -> Any:
    if role == MOMENT:
      return _shrink_tree('moments', part, plan.keep_moments, devices)
    if role == ITERATE:
      source = fresh_leaves[next(sources)]
      return _blend_tree('iterates', part, source, plan.tau, devices)
    if role == WEIGHT:
      return _shrink_tree('weights', part, 1 - plan.tau, devices)
    if role == COUNT and not plan.keep_counts:
      return devices.put(np.zeros((), devices.shape_of(part).dtype))
    return part

  params = _blend_tree(
    'parameters', model.params, fresh_params, plan.tau, devices
  )
  if jax.tree_util.tree_leaves(fresh_state):
    model_state = _blend_tree(
      'statistics', model.model_state, fresh_state, plan.tau, devices
    )
  else:
    # Only the first step added them, or they do not fit. They are kept, as the
    # coming batches update them, but values that are not finite become zero.
    model_state = _shrink_tree('statistics', model.model_state, 1.0, devices)
  parts = roles.treedef.flatten_up_to(model.opt_state)
  parts = [reset(part, role) for part, role in zip(parts, roles.roles)]
  opt_state = jax.tree_util.tree_unflatten(roles.treedef, parts)
  return Model(params, model_state, opt_state)


def _blend_tree(
  what: str, tree: Any, fresh: Any, share: float, devices: Devices
) -> Any:
  """Blends leaf by leaf."""
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  samples, hosts = [], []
  for i, new in enumerate(jax.tree_util.tree_leaves(fresh)):
    shape = devices.shape_of(leaves[i])
    hosts.append(np.asarray(new, shape.dtype).reshape(shape.shape))
    leaves[i], *sampled = devices.run(
      _blend_step, leaves[i], hosts[i], np.float32(share), donate=True
    )
    # Waiting for the sample keeps fresh leaves from piling up on the devices.
    samples.append(reset_checks.Sample(*jax.device_get(sampled)))
  reset_checks.check(what, samples, 1.0 - share, share, hosts)
  return jax.tree_util.tree_unflatten(treedef, leaves)


def _shrink_tree(what: str, tree: Any, keep: float, devices: Devices) -> Any:
  """Shrinks leaf by leaf."""
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  samples = []
  for i, leaf in enumerate(leaves):
    leaves[i], *sampled = devices.run(
      _shrink_step, leaf, np.float32(keep), donate=True
    )
    samples.append(reset_checks.Sample(*jax.device_get(sampled)))
  reset_checks.check(what, samples, keep)
  return jax.tree_util.tree_unflatten(treedef, leaves)

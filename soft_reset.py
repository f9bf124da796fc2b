"""The soft reset: how much of a model is replaced, and replacing it.

  tau     share of the way from an untrained model to the target to go
  params  <- (1 - tau) * params + tau * fresh params
  mu, nu  <- (1 - tau * alpha) * mu, nu     (Adam's moments, m and v)

Batch statistics follow the parameters that they belong to. Two counts could be
touched by a reset. The count of the cycle clock never is. Adam's own count
(bias correction) goes back to zero only together with the moments, in a full
reset: with moments kept, it would change the scale of the updates.

Source: thesis, section 3.3.2.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from . import optimizer, reset_checks
from .parallel import Devices


def tau(
  metric: float,
  target: float,
  first_metric: float | None,
  rising: bool,
) -> float:
  """The share of the way from an untrained model to the target to go.

    rising:   max(1 - metric / target, 0), the thesis
    falling:  clip(log(metric / target) / log(first / target), 0, 1)

  The thesis has no formula for metrics that fall. On a log scale perplexity,
  word error rate and error rate behave alike. Where the first evaluation does
  not serve (missing, not finite or no worse than the target) a falling metric
  uses 1 - target / metric.

  Args:
    metric: y, the validation metric of the last evaluation.
    target: the validation target, above 0.
    first_metric: y0, the metric of the run's first evaluation, or None.
    rising: whether a larger metric is better.

  Returns:
    tau in [0, 1]; 1 if the metric is not finite.

  Raises:
    ValueError: if the target is not a positive number.

  Source: thesis, section 3.3.2; the falling form is ours.
  """
  check_target(target)
  if not math.isfinite(metric):
    return 1.0
  if rising:
    return min(max(1.0 - metric / target, 0.0), 1.0)
  if metric <= target:
    return 0.0
  to_go = math.log(metric / target)
  if first_metric is None or not target < first_metric < math.inf:
    return 1.0 - target / metric
  return min(to_go / math.log(first_metric / target), 1.0)


def check_target(target: float) -> None:
  """Raises ValueError unless tau is defined for this validation target."""
  if not (math.isfinite(target) and target > 0):
    raise ValueError(
      f'validation_target_value={target!r}: tau needs a positive target.'
    )


class Reset(NamedTuple):
  """What a reset does to parameters, moments and Adam's count."""

  tau: float  # share of fresh values in parameters and batch statistics
  keep_moments: float  # factor on Adam's moments
  keep_count: bool  # whether Adam's count goes on

  @property
  def touches_nothing(self) -> bool:
    return self.tau == 0 and self.keep_moments == 1


def plan_reset(
  mode: str, tau_now: float, alpha: float, is_finite: bool
) -> Reset:
  """The reset that a mode asks for.

  Args:
    mode: 'soft', 'full', 'kept_momentum' or 'cyclic'.
    tau_now: tau of the soft reset, in [0, 1].
    alpha: share of tau that the moments get, in [0, 1].
    is_finite: whether model, moments and last evaluation are finite. If they
      are not, there is nothing to keep: a soft reset takes tau = 1.

  Returns:
    The Reset.

  Source: thesis, sections 3.2.2 (full, kept momentum) and 3.3.2 (soft).
  """
  if mode == 'full':
    return Reset(1.0, 0.0, False)
  if mode == 'kept_momentum':
    return Reset(1.0, 1.0, True)
  if mode == 'cyclic':
    return Reset(0.0, 1.0, True)
  share = tau_now if is_finite else 1.0
  return Reset(share, 1.0 - share * alpha, True)


class Model(NamedTuple):
  """What a reset may touch. Leaves are laid out on the devices."""

  params: Any
  model_state: Any  # batch statistics, or None
  opt_state: Any  # contains one optax.ScaleByAdamState


def blend_leaf(old: jax.Array, fresh: jax.Array, share: jax.Array) -> jax.Array:
  """(1 - share) * old + share * fresh, exact at both ends.

  Selected, not multiplied, where a product could be 0 * NaN: share = 0 gives
  old, share = 1 and non-finite elements of old give fresh. Integers, which
  cannot be blended, change at share = 1 only.
  """
  if not jnp.issubdtype(old.dtype, jnp.inexact):
    return jnp.where(share >= 1, fresh, old)
  blended = optax.incremental_update(fresh, old, share).astype(old.dtype)
  take_fresh = (share >= 1) | ~jnp.isfinite(old)
  return jnp.where(
    share <= 0, old, jnp.where(take_fresh, fresh.astype(old.dtype), blended)
  )


def shrink_leaf(moment: jax.Array, keep: jax.Array) -> jax.Array:
  """keep * moment, with zero where that is not finite or keep is 0."""
  kept = (keep * moment).astype(moment.dtype)
  return jnp.where(jnp.isfinite(moment) & (keep > 0), kept, 0)


def _sampled(fn: Callable) -> Callable:
  """fn that also returns samples of what went in and what came out."""

  def wrapped(old, *others):
    new = fn(old, *others)
    return new, (reset_checks.sample(old), reset_checks.sample(new))

  return wrapped


class ResetOps(NamedTuple):
  """The compiled operations of a reset, made before training starts."""

  blend: dict[Any, Callable]  # by shape and dtype of a leaf
  shrink: dict[Any, Callable]  # by shape and dtype of a leaf
  all_finite: Callable  # (params, model_state, moments) -> bool on the devices
  put: Callable  # host value -> laid out on the devices


def _key(leaf: Any) -> tuple[Any, ...]:
  return tuple(leaf.shape), str(leaf.dtype)


def _compile_by_shape(fn, shapes, others_of, devices) -> dict[Any, Callable]:
  """fn compiled once for each kind of leaf, the first argument donated."""
  leaves = {_key(leaf): leaf for leaf in jax.tree_util.tree_leaves(shapes)}
  return {
    key: devices.compile(_sampled(fn), leaf, *others_of(leaf), donate=True)
    for key, leaf in leaves.items()
  }


def _tree_all_finite(tree: Any) -> jax.Array:
  checks = [
    jnp.all(jnp.isfinite(leaf))
    for leaf in jax.tree_util.tree_leaves(tree)
    if jnp.issubdtype(leaf.dtype, jnp.inexact)
  ]
  return jnp.all(jnp.stack(checks))


def _host_shapes(tree: Any) -> Any:
  return jax.tree_util.tree_map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree
  )


def compile_reset(params: Any, model_state: Any, devices: Devices) -> ResetOps:
  """Compiles a reset before training, so that the reset compiles nothing.

  Leaf by leaf: with the old leaf donated and the fresh one on the host, the
  peak of extra device memory is one leaf and not one model.

  Args:
    params, model_state: trees of anything with shape and dtype, without device
      axis. Adam's moments have the shapes of params.
    devices: how leaves lie on the devices.

  Returns:
    The operations. Leaves of equal shape share one.
  """
  params, model_state = _host_shapes((params, model_state))
  scalar = jax.ShapeDtypeStruct((), jnp.float32)
  devices.put(np.int32(0))  # Adam's count; compiles where putting does
  return ResetOps(
    blend=_compile_by_shape(
      blend_leaf, (params, model_state), lambda x: (x, scalar), devices
    ),
    shrink=_compile_by_shape(shrink_leaf, params, lambda _: (scalar,), devices),
    all_finite=devices.compile(
      _tree_all_finite, (params, model_state, (params, params))
    ),
    put=devices.put,
  )


def is_finite(model: Model, ops: ResetOps) -> bool:
  """Whether parameters, batch statistics and Adam's moments all are finite."""
  adam = optimizer.find_state(model.opt_state, optax.ScaleByAdamState)
  tree = (model.params, model.model_state, (adam.mu, adam.nu))
  return bool(np.all(jax.device_get(ops.all_finite(tree))))


def _map_leaves(ops, tree, *others) -> tuple[Any, list[Any]]:
  """Applies a leaf operation to a tree, one leaf after the other.

  Waiting for each leaf keeps the fresh leaves from piling up on the devices.
  """
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  new_leaves, samples = [], []
  for leaf, keyed, *rest in zip(leaves, *others):
    new, sample = ops[_key(keyed)](leaf, *rest)
    new_leaves.append(new.block_until_ready())
    samples.append(sample)
  return jax.tree_util.tree_unflatten(treedef, new_leaves), samples


def model_reinit_schedule(
  model: Model, fresh: Any, reset: Reset, ops: ResetOps
) -> Model:
  """Resets a model at the start of a cycle, and checks that it was done.

  The checks recompute the formula on the host for up to 64 elements of every
  leaf, under pmap of every replica; that costs one small transfer.

  Args:
    model: parameters, batch statistics and optimizer state; donated.
    fresh: (params, model_state) of a new initialisation, as host arrays without
      device axis.
    reset: what is to be done; see `plan_reset`.
    ops: see `compile_reset`.

  Returns:
    The model with which the cycle starts, laid out as before.

  Raises:
    RuntimeError: if a check fails.

  Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
  """
  if reset.touches_nothing:
    return model
  share = np.float32(reset.tau)
  fresh_leaves = jax.tree_util.tree_leaves(fresh)
  n = len(fresh_leaves)
  (params, model_state), blended = _map_leaves(
    ops.blend,
    (model.params, model.model_state),
    fresh_leaves,
    fresh_leaves,
    [share] * n,
  )
  reset_checks.check_blend(jax.device_get(blended), fresh_leaves, float(share))
  opt_state = _reset_adam(model.opt_state, fresh[0], reset, ops)
  return Model(params, model_state, opt_state)


def _reset_adam(opt_state, fresh_params, reset: Reset, ops: ResetOps) -> Any:
  """Shrinks the moments; the count goes to zero if it is not kept."""
  keep = np.float32(reset.keep_moments)
  adam = optimizer.find_state(opt_state, optax.ScaleByAdamState)
  shapes = jax.tree_util.tree_leaves(fresh_params) * 2
  (mu, nu), samples = _map_leaves(
    ops.shrink, (adam.mu, adam.nu), shapes, [keep] * len(shapes)
  )
  reset_checks.check_moments(jax.device_get(samples), float(keep))
  count = adam.count if reset.keep_count else ops.put(np.int32(0))
  new = optax.ScaleByAdamState(count=count, mu=mu, nu=nu)
  return optimizer.map_states(lambda _: new, opt_state, optax.ScaleByAdamState)

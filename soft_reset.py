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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .optimizers import adamw as optimizer
from .training import reset_checks
from .training.compiled_ops import CompiledOps
from .training.devices import Devices


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
      are not, there is nothing to keep: a soft reset becomes a full one. What
      is left of the moments of a diverged run is finite but absurd.

  Returns:
    The Reset.

  Source: thesis, sections 3.2.2 (full, kept momentum) and 3.3.2 (soft).
  """
  if mode == 'full' or (mode == 'soft' and not is_finite):
    return Reset(1.0, 0.0, False)
  if mode == 'kept_momentum':
    return Reset(1.0, 1.0, True)
  if mode == 'cyclic':
    return Reset(0.0, 1.0, True)
  return Reset(tau_now, 1.0 - tau_now * alpha, True)


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


def leaf_is_finite(leaf: jax.Array) -> jax.Array:
  """Whether all elements are finite; integers are."""
  return jnp.all(jnp.isfinite(leaf))


_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


def compile_reset(
  params: Any, model_state: Any, devices: Devices
) -> CompiledOps:
  """Compiles a reset before training, so that the reset compiles nothing.

  Leaf by leaf, with the old leaf donated and the fresh one on the host: beside
  the model, one leaf at a time is on the devices, and samples.

  Args:
    params, model_state: trees of anything with shape and dtype, without device
      axis. Adam's moments have the shapes of params.
    devices: how leaves lie on the devices.

  Returns:
    The operations. Leaves of equal shape share one.
  """
  ops = CompiledOps(devices)
  devices.put(np.int32(0))  # Adam's count; compiles where putting does
  params, model_state = (
    [
      jax.ShapeDtypeStruct(x.shape, x.dtype)
      for x in jax.tree_util.tree_leaves(tree)
    ]
    for tree in (params, model_state)
  )
  for leaf in params + model_state:
    ops.prepare(leaf_is_finite, leaf)
    ops.prepare(blend_leaf, leaf, leaf, _SCALAR, donate=True)
  for leaf in params:
    ops.prepare(shrink_leaf, leaf, _SCALAR, donate=True)
  for leaves in (params, model_state, 2 * params):
    if leaves:
      ops.prepare(reset_checks.sample_all, leaves)
  return ops


def is_finite(model: Model, ops: CompiledOps) -> bool:
  """Whether parameters, batch statistics and Adam's moments all are finite."""
  adam = optimizer.find_state(model.opt_state, optax.ScaleByAdamState)
  leaves = jax.tree_util.tree_leaves(
    (model.params, model.model_state, adam.mu, adam.nu)
  )
  found = [ops.run(leaf_is_finite, leaf) for leaf in leaves]
  return all(np.all(finite) for finite in jax.device_get(found))


def model_reinit_schedule(
  model: Model, fresh: Any, reset: Reset, ops: CompiledOps
) -> Model:
  """Resets a model at the start of a cycle, and checks that it was done.

  The checks recompute the formula on the host for up to 64 elements of every
  leaf, under pmap of every replica.

  Args:
    model: parameters, batch statistics and optimizer state; donated.
    fresh: (params, model_state) of a new initialisation, as host arrays without
      device axis.
    reset: what is to be done; see `plan_reset`.
    ops: see `compile_reset`.

  Returns:
    The model with which the cycle starts, laid out as before.

  Raises:
    RuntimeError: if a check fails, or fresh is of another model.

  Source: thesis, sections 3.1 (figure 3.2) and 3.3.2.
  """
  if reset.touches_nothing:
    return model
  share = np.float32(reset.tau)
  fresh_params, fresh_state = fresh
  params = _blend_tree(model.params, fresh_params, share, ops)
  if jax.tree_util.tree_leaves(fresh_state):
    model_state = _blend_tree(model.model_state, fresh_state, share, ops)
  else:
    model_state = _without_fresh(model.model_state, ops)
  opt_state = _reset_adam(model.opt_state, reset, ops)
  return Model(params, model_state, opt_state)


def _samples(leaves, ops: CompiledOps) -> list[np.ndarray]:
  """Samples of leaves, on the host; then the leaves are free to be donated."""
  return jax.device_get(ops.run(reset_checks.sample_all, leaves))


def _blend_tree(tree, fresh, share, ops: CompiledOps) -> Any:
  """Blends leaf by leaf; the result has the structure of tree."""
  leaves, treedef = jax.tree_util.tree_flatten(tree)
  shapes = list(map(ops.devices.shape_of, leaves))
  fresh_leaves = jax.tree_util.tree_leaves(fresh)
  if [leaf.size for leaf in fresh_leaves] != [
    math.prod(shape.shape) for shape in shapes
  ]:
    raise RuntimeError('init_model_fn gave a model of other sizes.')
  old = _samples(leaves, ops)
  for i, (shape, fresh_leaf) in enumerate(zip(shapes, fresh_leaves)):
    fresh_leaf = np.asarray(fresh_leaf, shape.dtype).reshape(shape.shape)
    leaves[i] = ops.run(blend_leaf, leaves[i], fresh_leaf, share, donate=True)
    # Waiting keeps the fresh leaves from piling up on the devices.
    leaves[i].block_until_ready()
  samples = list(zip(old, _samples(leaves, ops)))
  reset_checks.check_blend(samples, fresh_leaves, float(share))
  return jax.tree_util.tree_unflatten(treedef, leaves)


def _without_fresh(model_state, ops: CompiledOps) -> Any:
  """Statistics that the first step has added: there are no fresh ones.

  They follow the batches; what is not finite would stay so, and becomes zero.
  """
  one = np.float32(1)
  return jax.tree_util.tree_map(
    lambda leaf: ops.run(shrink_leaf, leaf, one, donate=True), model_state
  )


def _reset_adam(opt_state, reset: Reset, ops: CompiledOps) -> Any:
  """Shrinks the moments; the count goes to zero if it is not kept."""
  keep = np.float32(reset.keep_moments)
  adam = optimizer.find_state(opt_state, optax.ScaleByAdamState)
  leaves, treedef = jax.tree_util.tree_flatten((adam.mu, adam.nu))
  old = _samples(leaves, ops)
  leaves = [ops.run(shrink_leaf, leaf, keep, donate=True) for leaf in leaves]
  samples = list(zip(old, _samples(leaves, ops)))
  reset_checks.check_moments(samples, float(keep))
  mu, nu = jax.tree_util.tree_unflatten(treedef, leaves)
  count = adam.count if reset.keep_count else ops.devices.put(np.int32(0))
  new = optax.ScaleByAdamState(count=count, mu=mu, nu=nu)
  return optimizer.map_states(lambda _: new, opt_state, optax.ScaleByAdamState)

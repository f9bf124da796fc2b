"""Builds and compiles what averages need, before the first step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..averaging import AVERAGES
from ..averaging.average import Plan
from ..control.state import to_words
from ..optimizers import Inner
from ..schedules.cycle import Cycle
from ..settings.checks import check
from .averaging import (
  AVERAGE,
  NOTHING,
  OWN,
  AveragedState,
  Averager,
  Books,
  copied,
  mixed,
)
from .compiled_ops import CompiledOps
from .devices import Devices
from .resetting import Model

_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


def make_averager(
  cycles: Sequence[Cycle],
  step_hint: int,
  inners: Sequence[Inner],
  model: Model,
  rising: bool,
  devices: Devices,
) -> tuple[Averager | None, AveragedState | tuple[()]]:
  """The averager and its first state; (None, ()) if nothing is averaged.

  Args:
    cycles: the chain.
    step_hint: the workload's step_hint, steps.
    inners: the optimizer of each cycle.
    model: laid out, before the first step; opt_state is that of the optimizer.
    rising: whether a larger target metric is better.
    devices: how arrays lie on the devices.

  Raises:
    ValueError: for a running average over an optimizer that has its own.
  """
  averages = [AVERAGES.make(cycle.averaging) for cycle in cycles]
  plans = tuple(average.plan(step_hint) for average in averages)
  shapes = Model(*jax.tree_util.tree_map(devices.shape_of, tuple(model)))
  distinct = {
    inner: own_weights(inner, shapes.opt_state, shapes.params)
    for inner in dict.fromkeys(inners)
  }
  own = tuple(distinct[inner] for inner in inners)
  if not any(own) and not any(plans):
    return None, ()
  _check_running(cycles, plans, own)
  averager = Averager(
    plans=plans,
    choices=tuple(average.choice for average in averages),
    rising=rising,
    shapes=shapes.params,
    own=own,
    ops=_compiled(plans, own, shapes, devices),
    flags=tuple(devices.put(np.int32(out)) for out in (NOTHING, OWN, AVERAGE)),
  )
  # Put from the host, as averages will be, so that any compilation is done now.
  slot = devices.put(
    jax.tree_util.tree_map(lambda x: np.zeros(x.shape, x.dtype), shapes.params)
  )
  words = devices.put(to_words(Books()))
  slot = devices.place(slot)
  return averager, AveragedState(slot, words, averager.flags[NOTHING])


def _is_running(plan: Plan | None) -> bool:
  return plan is not None and not plan.window


def _check_running(
  cycles: Sequence[Cycle],
  plans: Sequence[Plan | None],
  own: Sequence[Callable | None],
) -> None:
  for cycle, plan, own_average in zip(cycles, plans, own):
    is_wrong = _is_running(plan) and own_average is not None
    right = f'none or lawa, since {cycle.optimizer} has an average of its own'
    check(not is_wrong, 'averaging', str(cycle.averaging), right)


def _compiled(
  plans: Sequence[Plan | None],
  own: Sequence[Callable | None],
  shapes: Model,
  devices: Devices,
) -> CompiledOps:
  """The operations of a run, so that nothing is compiled during it."""
  ops = CompiledOps(devices)
  if any(plans):
    ops.prepare(copied, shapes.params)
  if any(map(_is_running, plans)):
    ops.prepare(mixed, (shapes.params, shapes.params), _SCALAR)
  for weights in filter(None, own):
    ops.prepare(weights, (shapes.opt_state, shapes.params))
  return ops


def own_weights(
  inner: Inner, opt_state: Any, params: Any
) -> Callable[[tuple[Any, Any]], Any] | None:
  """(opt_state, params) -> copies of the optimizer's own weights to evaluate.

  Args:
    inner: the optimizer.
    opt_state, params: trees of anything with shape and dtype.

  Returns:
    The function; None if those weights are the trained ones.
  """
  is_same = []

  def evaluated(pair: tuple[Any, Any]) -> Any:
    return inner.eval_params(*pair)

  def look(pair: tuple[Any, Any]) -> None:
    leaves = map(jax.tree_util.tree_leaves, (evaluated(pair), pair[1]))
    is_same.extend(a is b for a, b in zip(*leaves))

  jax.eval_shape(look, (opt_state, params))
  return None if all(is_same) else lambda pair: copied(evaluated(pair))

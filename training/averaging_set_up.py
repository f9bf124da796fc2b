"""What averages are made with, built and compiled before the first step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..averaging import AVERAGES
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
  inner: Inner,
  model: Model,
  rising: bool,
  devices: Devices,
) -> tuple[Averager | None, AveragedState | tuple[()]]:
  """The averager and its first state; None if what is trained is evaluated.

  Args:
    cycles: the chain.
    step_hint: the workload's, steps.
    inner: the optimizer.
    model: laid out, before the first step; its opt_state is the optimizer's.
    rising: whether a larger target metric is better.
    devices: how arrays lie on the devices.

  Raises:
    ValueError: for a running average of an optimizer that has its own.
  """
  averages = [AVERAGES.make(cycle.averaging) for cycle in cycles]
  plans = tuple(average.plan(step_hint) for average in averages)
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  own = own_weights(inner, shapes.opt_state, shapes.params)
  if own is None and not any(plans):
    return None, ()
  for cycle, plan in zip(cycles, plans):
    is_running = plan is not None and not plan.window
    right = f'none or lawa: {cycle.optimizer} has an average of its own'
    check(own is None or not is_running, 'averaging', cycle.averaging, right)
  ops = CompiledOps(devices)
  ops.prepare(copied, shapes.params)
  if any(plan is not None and not plan.window for plan in plans):
    ops.prepare(mixed, (shapes.params, shapes.params), _SCALAR)
  if own is not None:
    ops.prepare(own, (shapes.opt_state, shapes.params))
  averager = Averager(
    plans=plans,
    choices=tuple(average.choice for average in averages),
    rising=rising,
    shapes=shapes.params,
    own=(own,) * len(cycles),
    ops=ops,
    flags=tuple(devices.put(np.int32(out)) for out in (NOTHING, OWN, AVERAGE)),
  )
  # Put from the host, as averages will be, so that it compiles where that does.
  slot = devices.put(
    jax.tree_util.tree_map(lambda x: np.zeros(x.shape, x.dtype), shapes.params)
  )
  words = devices.put(to_words(Books()))
  return averager, AveragedState(slot, words, averager.flags[NOTHING])


def own_weights(
  inner: Inner, opt_state: Any, params: Any
) -> Callable[[tuple[Any, Any]], Any] | None:
  """(opt_state, params) -> copies of the optimizer's own weights to evaluate.

  Args:
    inner: the optimizer.
    opt_state, params: trees of anything with shape and dtype.

  Returns:
    None if they are those that are trained.
  """
  is_same = []

  def evaluated(pair: tuple[Any, Any]) -> Any:
    return inner.eval_params(*pair)

  def look(pair: tuple[Any, Any]) -> None:
    leaves = map(jax.tree_util.tree_leaves, (evaluated(pair), pair[1]))
    is_same.extend(a is b for a, b in zip(*leaves))

  jax.eval_shape(look, (opt_state, params))
  return None if all(is_same) else lambda pair: copied(evaluated(pair))

"""An inner optimizer driven by the cycle clock.

The clock determines the numbers of a step: learning rate, weight decay, betas.
The inner optimizer is built from them while the step is traced, as in
`optax.inject_hyperparams`. Numbers on which all cycles agree are constants of
the compiled step; others are traced, so that cycles that differ only in numbers
share one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..schedules import cycle_clock
from ..schedules.cycle import Cycle
from ..schedules.cycle_clock import CycleClock
from .inner import Inner, InnerHparams


class ClockedState(NamedTuple):
  """State of `clocked`; its clock is replaced when a cycle ends."""

  clock: CycleClock
  inner: Any  # state of the inner optimizer's transformation


def hparams_at(clock: CycleClock, cycles: Sequence[Cycle]) -> InnerHparams:
  """The optimizer's numbers in the clock's cycle."""

  def number(name: str) -> float | jax.Array:
    values = [getattr(cycle.hparams, name) for cycle in cycles]
    return cycle_clock.number(values, clock.cycle)

  clips = [cycle.hparams.grad_clip for cycle in cycles]
  unclipped = [math.inf if clip is None else clip for clip in clips]
  return InnerHparams(
    one_minus_beta1=number('one_minus_beta1'),
    beta2=number('beta2'),
    eps=number('eps'),
    grad_clip=None
    if set(clips) == {None}
    else cycle_clock.number(unclipped, clock.cycle),
  )


def _in_types_of(before: Any, after: Any) -> Any:
  return jax.tree_util.tree_map(
    lambda old, new: new.astype(jnp.result_type(old)), before, after
  )


def clocked(
  inner: Inner, cycles: Sequence[Cycle]
) -> optax.GradientTransformation:
  """The inner optimizer, with the numbers of the clock's cycle at every step.

  Args:
    inner: the optimizer inside the cycles.
    cycles: the chain.

  Returns:
    An optax transformation whose state is a ClockedState.
  """

  def build(clock: CycleClock) -> optax.GradientTransformation:
    return inner.build(
      hparams_at(clock, cycles),
      cycle_clock.learning_rate(clock, cycles),
      cycle_clock.weight_decay(clock, cycles),
    )

  def init(params: Any) -> ClockedState:
    steps = cycles[0].steps
    clock = cycle_clock.anchored_clock(0, 0, 0.0, steps, steps)
    return ClockedState(clock, build(clock).init(params))

  def update(
    updates: Any, state: ClockedState, params: Any = None
  ) -> tuple[Any, ClockedState]:
    clock = state.clock
    new, inner_state = build(clock).update(updates, state.inner, params)
    clock = clock._replace(count=clock.count + 1)
    # Traced numbers are float32 and would turn a bfloat16 leaf into float32.
    new = _in_types_of(updates, new)
    return new, ClockedState(clock, _in_types_of(state.inner, inner_state))

  return optax.GradientTransformation(init, update)

"""An optimizer that the cycle clock tells its steps.

The rate and the other numbers of a step come from the clock. The transformation
is built with them while the step is traced, as in `optax.inject_hyperparams`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..core.clock import (
  decay_factor,
  learning_rate,
  share_passed,
  steps_taken,
  unpacked,
  weight_decay,
)
from ..core.schedules import PlannedCycle
from .step import Step

# optax 0.1.5 has one kind of transformation.
TRANSFORMATION: type[optax.GradientTransformation] = getattr(
  optax, 'GradientTransformationExtraArgs', optax.GradientTransformation
)


class ClockedState(NamedTuple):
  """State of `clocked`: arrays only, to be saved and restored as they are."""

  inner: Any  # of the optimizer's own transformation
  clock: Any  # shape=(11,), dtype=int32; see `clock.packed`
  control: Any  # shape=(words,), dtype=int32; see `state.to_words`


def clocked(
  build: Callable[[Step], Any],
  cycles: Sequence[PlannedCycle],
  first_words: tuple[np.ndarray, np.ndarray],
  constants: Step | None = None,
) -> optax.GradientTransformation:
  """An optimizer that the clock tells its steps; its state is a `ClockedState`.

  A step moves the clock's count. The rest of the clock, and the control, are
  replaced between steps; see `state.words_of`.

  Args:
    build: a `Step` -> the transformation that takes this step.
    cycles: the cycles that the clock goes through.
    first_words: clock and control of a run that begins.
    constants: the fields of a step that never change, such as spread and
      forms.
  """
  rate_of = jax.jit(functools.partial(learning_rate, cycles=cycles))
  each = Step(0.0) if constants is None else constants

  def init(params: Any) -> ClockedState:
    first = each._replace(rate=jnp.float32(unpacked(first_words[0]).peak))
    inner = build(first).init(params)
    return ClockedState(inner, *map(jnp.asarray, first_words))

  def update(
    grads: Any, state: ClockedState, params: Any = None, **more: Any
  ) -> tuple[Any, ClockedState]:
    words = state.clock
    step = each._replace(
      rate=rate_of(words),
      weight_decay=weight_decay(words, cycles),
      decay_factor=decay_factor(words, cycles),
      passed=share_passed(words),
      taken=steps_taken(words),
      size=unpacked(words).size,
    )
    transformation = build(step)
    updates, inner = transformation.update(grads, state.inner, params, **more)
    clock = words.at[0].add(1)
    return updates, ClockedState(inner, clock, state.control)

  return TRANSFORMATION(init, update)

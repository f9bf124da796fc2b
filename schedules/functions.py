"""Shapes that are Python functions of the user's; no JSON can hold them.

What goes wrong inside such a function is said when the cycles are laid out,
before any training.
"""

from __future__ import annotations

from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..settings.kinds import Function
from .decays import DECAYS
from .formulas import passed_share
from .phase import Phase, Schedule

_OF_A_SHARE = (
  'a function that JAX can trace, from the share of the phase to one number'
)
_OF_A_STEP = 'a function from a step (1, 2, ...) to one number, its factor'


def _refusal(
  shape: str, function: Callable, right: str, why: str
) -> ValueError:
  name = getattr(function, '__name__', repr(function))
  return ValueError(
    f'{shape}: function={name}: function must be {right}; {why}.'
  )


def _text(error: Exception) -> str:
  """The kind of an error and its first line."""
  first = str(error).split('\n', 1)[0].rstrip('.')
  return f'{type(error).__name__}: {first}' if first else type(error).__name__


@DECAYS.register(name='lambda')
def of_function(phase: Phase, *, function: Function) -> Schedule:
  """function(u), a function that JAX can trace.

  It may differ in the last bits between programs if it adds to a bare product;
  see `formulas.rounded`.

  Args:
    function: from the share of the phase to the share of the peak.

  Raises:
    ValueError: if the function raises, cannot be traced, or gives anything but
      one real number.

  Source: torch's LambdaLR.
  """

  def schedule(count: ArrayLike) -> jax.Array:
    value = function(passed_share(count, phase.steps))
    if value is None:  # jax 0.4 would make it nan
      raise TypeError('None is not a number')
    return jnp.asarray(value)

  try:
    value = jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.float32))
  except Exception as error:
    why = f'it raised {_text(error)}'
    raise _refusal('lambda', function, _OF_A_SHARE, why) from error
  if value.shape or jnp.issubdtype(value.dtype, jnp.complexfloating):
    why = f'it gave {value.dtype.name}{list(value.shape)}'
    raise _refusal('lambda', function, _OF_A_SHARE, why)
  return schedule


@DECAYS.register
def multiplicative(phase: Phase, *, function: Function) -> Schedule:
  """function(1) * ... * function(t); it is called once per step, now.

  The value stays as it is after the phase, and between whole steps.

  Args:
    function: from a step, a whole number from 1 on, to a factor.

  Raises:
    ValueError: if the function raises, gives no number, or if the product does
      not stay finite.

  Source: torch's MultiplicativeLR.
  """
  factors = [_factor(function, t) for t in range(1, phase.steps + 1)]
  with np.errstate(over='ignore', invalid='ignore'):
    table = np.cumprod([1.0, *factors]).astype(np.float32)
  wrong = np.flatnonzero(~np.isfinite(table))
  if wrong.size:
    why = f'the product of its values is {table[wrong[0]]} at step {wrong[0]}'
    raise _refusal('multiplicative', function, _OF_A_STEP, why)

  def schedule(count: ArrayLike) -> jax.Array:
    whole = jnp.floor(jnp.asarray(count, jnp.float32)).astype(jnp.int32)
    return jnp.asarray(table)[jnp.clip(whole, 0, phase.steps)]

  return schedule


def _factor(function: Callable[[int], float], step: int) -> float:
  try:
    return float(function(step))
  except Exception as error:
    why = f'it raised {_text(error)} at step {step}'
    raise _refusal('multiplicative', function, _OF_A_STEP, why) from error

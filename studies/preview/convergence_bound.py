"""What convex optimization says about a learning-rate schedule.

For (sub)gradient descent x_{t+1} = x_t - eta_t g_t on a convex function, with
E|g_t|^2 <= G_t^2 and D the distance from x_1 to a minimiser, the last iterate
is at most

  Omega_T = D^2 / (2 (eta_1 + ... + eta_T)) + eta_T G_T^2 / 2
            + 1/2 sum_{k<T} (eta_k G_k)^2 / (eta_{k+1} + ... + eta_T)

above the minimum, in expectation. The first term falls and the others rise with
the rates: Omega_T(gamma) = start / gamma + gamma * noise for rates gamma * eta.

A rate of 0 at step T makes the bound infinite: the proof divides by eta_T, the
rate of the step that would follow the iterate x_T. Rates of 0 elsewhere are
steps that do nothing.

All functions take

  rates: shape=(T,); eta_1 to eta_T, from 0 to 1e150
  grad_norms: G, the same for all steps or shape=(T,); from 0 to 1e150
  distance: D, above 0

and raise a ValueError for an argument of another shape or out of range.

Source: Schaipp et al. 2025, "The Surprising Agreement Between Convex
Optimization Theory and Learning-Rate Scheduling for Large Model Training",
theorem 1. Its double sum telescopes into the one above: with R_k the sum
eta_k + ... + eta_T, eta_k / (R_k R_{k+1}) = 1 / R_{k+1} - 1 / R_k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...core.checks import check_number

# Larger rates or norms may have a sum of squares that fits into no float.
_LARGEST = 1e150


class BestBaseRate(NamedTuple):
  """The factor of all rates that makes the bound smallest, and that bound."""

  gamma: float
  bound: float


def last_iterate_bound(
  rates: ArrayLike, grad_norms: ArrayLike = 1.0, distance: float = 1.0
) -> float:
  """Omega_T, from one sum over the steps; infinite if the last rate is 0."""
  return sum(_last_terms(*_checked(rates, grad_norms, distance)))


def best_base_rate(
  rates: ArrayLike, grad_norms: ArrayLike = 1.0, distance: float = 1.0
) -> BestBaseRate:
  """gamma* = sqrt(start / noise), where Omega_T* = 2 sqrt(start * noise).

  The rates' common factor changes gamma* and not Omega_T*: it is the shape that
  is judged.

  Returns:
    The best factor and the bound with it; 0 and infinity if the last rate is 0,
    infinity and 0 if there are no gradients.
  """
  start, noise = _last_terms(*_checked(rates, grad_norms, distance))
  if noise == math.inf:
    return BestBaseRate(0.0, math.inf)
  if noise == 0:
    return BestBaseRate(math.inf, 0.0)
  return BestBaseRate(
    math.sqrt(start / noise), 2 * math.sqrt(start) * math.sqrt(noise)
  )


def bound_curve(
  rates: ArrayLike, grad_norms: ArrayLike = 1.0, distance: float = 1.0
) -> np.ndarray:
  """Omega_1 to Omega_T: the bound of the schedule cut off after each step.

  Returns:
    shape=(T,), float64; infinite where the rate is 0.
  """
  rates, norms, distance = _checked(rates, grad_norms, distance)
  return np.array(
    [
      sum(_last_terms(rates[:t], norms[:t], distance))
      for t in range(1, rates.size + 1)
    ]
  )


def _last_terms(
  rates: np.ndarray, norms: np.ndarray, distance: float
) -> tuple[float, float]:
  """start = D^2 / (2 sum) and noise, the rest of Omega_T."""
  if rates[-1] == 0:
    return math.inf, math.inf
  tails = np.cumsum(rates[::-1])[::-1]  # eta_k + ... + eta_T: only sums
  with np.errstate(over='ignore'):  # too large for a float is infinite
    start = distance * (distance / tails[0])
    earlier = np.sum(rates[:-1] * norms[:-1] ** 2 * (rates[:-1] / tails[1:]))
    noise = rates[-1] * norms[-1] ** 2 + earlier
  return float(start) / 2, float(noise) / 2


def _checked(
  rates: ArrayLike, grad_norms: ArrayLike, distance: float
) -> tuple[np.ndarray, np.ndarray, float]:
  rates, norms = (np.asarray(v, np.float64) for v in (rates, grad_norms))
  if rates.ndim != 1 or not rates.size:
    raise ValueError(
      f'shape of rates is {rates.shape}; it must be (T,) with a rate for each '
      'of at least one step.'
    )
  if norms.shape not in ((), rates.shape):
    raise ValueError(
      f'shape of grad_norms is {norms.shape}; it must be () or that of the '
      f'rates, {rates.shape}.'
    )
  norms = np.broadcast_to(norms, rates.shape)
  for name, values in (('rates', rates), ('grad_norms', norms)):
    wrong = np.flatnonzero(~((values >= 0) & (values <= _LARGEST)))
    if wrong.size:
      raise ValueError(
        f'{name}[{wrong[0]}] is {values[wrong[0]]}; it must be a number from 0 '
        'to 1e150.'
      )
  check_number('distance', distance, '(0, inf)')
  return rates, norms, float(distance)

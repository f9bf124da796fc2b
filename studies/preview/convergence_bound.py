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

from ...settings.checks import check, check_number, check_positive

# 1 / d = integral of exp(u - d exp(u)) du, by the trapezoidal rule. The step
# makes a relative error of 2 |Gamma(1 + 2 pi i / step)| = 1.2e-13, cutting the
# integral off at both ends another of _CUT_OFF each.
_QUADRATURE_STEP = 0.3
_CUT_OFF = 1e-13
_STEPS_AT_ONCE = 256  # keeps their exponentials in the processor's cache
# Rates further apart than this have squares that don't fit into floats beside
# each other; larger ones may have a sum of squares that fits into none.
_WIDEST_RANGE = math.log(1e150)
_LARGEST = 1e150


class BestBaseRate(NamedTuple):
  """The factor of all rates that makes the bound smallest, and that bound."""

  gamma: float
  bound: float


def last_iterate_bound(
  rates: ArrayLike, grad_norms: ArrayLike = 1.0, distance: float = 1.0
) -> float:
  """Omega_T, from one sum over the steps.

  Args:
    rates: shape=(T,); eta_1 to eta_T, from 0 to 1e150.
    grad_norms: G, the same for all steps or shape=(T,); from 0 to 1e150.
    distance: D, above 0.

  Returns:
    The bound; infinite if the last rate is 0.

  Raises:
    ValueError: for an argument of another shape or out of range.
  """
  return sum(_last_terms(*_checked(rates, grad_norms, distance)))


def best_base_rate(
  rates: ArrayLike, grad_norms: ArrayLike = 1.0, distance: float = 1.0
) -> BestBaseRate:
  """gamma* = sqrt(start / noise), where Omega_T* = 2 sqrt(start * noise).

  Args:
    rates: shape=(T,); eta_1 to eta_T, from 0 to 1e150. Their common factor
      changes gamma* and not Omega_T*: it is the shape that is judged.
    grad_norms: G, the same for all steps or shape=(T,); from 0 to 1e150.
    distance: D, above 0.

  Returns:
    The best factor and the bound with it; 0 and infinity if the last rate is 0,
    infinity and 0 if there are no gradients.

  Raises:
    ValueError: for an argument of another shape or out of range.
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

  In T times a few hundred operations instead of T^2 (about 1,300 at most, where
  rates are 150 decades apart), to a relative error of 4e-13 + T * 2e-16. Rates
  that are further apart than that take T^2.

  Args:
    rates: shape=(T,); eta_1 to eta_T, from 0 to 1e150.
    grad_norms: G, the same for all steps or shape=(T,); from 0 to 1e150.
    distance: D, above 0.

  Returns:
    shape=(T,), float64; infinite where the rate is 0.

  Raises:
    ValueError: for an argument of another shape or out of range.
  """
  rates, norms, distance = _checked(rates, grad_norms, distance)
  if max(_log_range(rates), _log_range(rates * norms)) > _WIDEST_RANGE:
    return _direct_curve(rates, norms, distance)
  curve = np.full(rates.size, np.inf)
  at = rates > 0
  if at.any():
    with np.errstate(over='ignore'):  # too large for a float is infinite
      noise = rates * norms**2 + _sums_over_earlier(rates, norms)
      start = distance * (distance / np.cumsum(rates)[at])
    curve[at] = (start + noise[at]) / 2
  return curve


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


def _direct_curve(
  rates: np.ndarray, norms: np.ndarray, distance: float
) -> np.ndarray:
  """The curve in T^2 operations, which no range of rates can disturb."""
  return np.array(
    [
      sum(_last_terms(rates[:t], norms[:t], distance))
      for t in range(1, rates.size + 1)
    ]
  )


def _sums_over_earlier(rates: np.ndarray, norms: np.ndarray) -> np.ndarray:
  """sum_{k<t} (eta_k G_k)^2 / (eta_{k+1} + ... + eta_t) for every t.

  With 1 / d as a sum of exponentials w exp(-s d), the sums over k become
  recurrences, one for each s:

    z_t = exp(-s eta_t) (z_{t-1} + (eta_{t-1} G_{t-1})^2)

  Distances are never differences of cumulative rates, and nothing is negative:
  there is no cancellation, however closely the rates crowd near 0.

  Returns:
    shape=(T,); without meaning where the rate is 0, and d may be.
  """
  unit, peak = rates.max(), (rates * norms).max() or 1.0
  energies = (rates * norms / peak) ** 2
  rates = rates / unit
  exponents, weights = _exponentials(rates[rates > 0].min(), rates.sum())
  carried, sums = np.zeros_like(exponents), np.empty_like(rates)
  for start in range(0, rates.size, _STEPS_AT_ONCE):
    block = rates[start : start + _STEPS_AT_ONCE]
    factors = np.exp(np.outer(-block, exponents))
    for t, factor in enumerate(factors, start):
      carried *= factor
      sums[t] = weights @ carried
      carried += energies[t]
  return sums * (peak / unit) * peak


def _exponentials(
  shortest: float, longest: float
) -> tuple[np.ndarray, np.ndarray]:
  """1 / d as sum w exp(-s d), to a relative error of 4e-13.

  Args:
    shortest: smallest d.
    longest: largest d.

  Returns:
    The exponents s and the weights w.
  """
  low = math.log(_CUT_OFF / longest)
  high = math.log(-math.log(_CUT_OFF) / shortest)
  count = math.ceil((high - low) / _QUADRATURE_STEP) + 1
  exponents = np.exp(low + _QUADRATURE_STEP * np.arange(count))
  return exponents, _QUADRATURE_STEP * exponents


def _log_range(values: np.ndarray) -> float:
  """log(largest / smallest) of what is above 0."""
  logs = np.log(values[values > 0])
  return float(np.ptp(logs)) if logs.size else 0.0


def _checked(
  rates: ArrayLike, grad_norms: ArrayLike, distance: float
) -> tuple[np.ndarray, np.ndarray, float]:
  rates = np.asarray(rates, np.float64)
  check(
    rates.ndim == 1 and rates.size > 0,
    'shape of rates',
    rates.shape,
    '(T,) with a rate for each of at least one step',
  )
  norms = np.asarray(grad_norms, np.float64)
  check(
    norms.shape in ((), rates.shape),
    'shape of grad_norms',
    norms.shape,
    f'() or that of the rates, {rates.shape}',
  )
  norms = np.broadcast_to(norms, rates.shape)
  for name, values in (('rates', rates), ('grad_norms', norms)):
    _check_range(name, values)
  check_positive('distance', distance)
  return rates, norms, distance


def _check_range(name: str, values: np.ndarray) -> None:
  wrong = np.flatnonzero(~((values >= 0) & (values <= _LARGEST)))
  if wrong.size:
    i = int(wrong[0])
    check_number(
      f'{name}[{i}]', float(values[i]), 0, _LARGEST, 'a number from 0 to 1e150'
    )

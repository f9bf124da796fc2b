"""A bound of convex theory on the last loss, for a plan of learning rates.

For gradient descent on a convex function with subgradients, theorem 1 of
Schaipp, Hägele, Taylor, Simsekli and Bach 2025, "The Surprising Agreement
Between Convex Optimization Theory and Learning-Rate Scheduling for Large Model
Training":

  f(x_T) - f* <= Omega_T
    = (D^2 + sum_t eta_t^2 G_t^2) / (2 sum_t eta_t)
      + 1/2 sum_{k<T} eta_k / s_{k+1} / s_k sum_{t>=k} eta_t^2 G_t^2,

  s_k = sum_{t>=k} eta_t,  t and k from 1 to T.

D is the distance of the start from an optimum, G_t the norm of the gradient at
step t. The theorem does not cover Adam, averages or resets. The code needs
NumPy only, and no training depends on the bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.checks import check, check_count, check_number


class Bound(NamedTuple):
  """A bound, and what the best factor on all rates makes of it.

  With rates of gamma * eta_t the bound is a / gamma + b * gamma. It is least at
  gamma* = sqrt(a / b).
  """

  value: float  # Omega_T of the rates as they are
  best_factor: float  # gamma*
  best_value: float  # Omega_T at gamma*


def last_iterate_bound(
  rates: ArrayLike, gradient_norms: ArrayLike = 1.0, distance: float = 1.0
) -> Bound:
  """The bound after the last step, in O(T).

  Steps at a rate of 0 at the end move nothing: they are left out.

  Args:
    rates: eta of each step, 0 or more, shape=(T,); not all of them 0.
    gradient_norms: G, one number or shape=(T,), 0 or more.
    distance: D, above 0.

  Raises:
    ValueError: for an argument that is something else.

  Source: theorem 1 of Schaipp et al. 2025.
  """
  eta, norms = _checked(rates, gradient_norms, distance)
  # From each step to the last one.
  left = np.cumsum(eta[::-1])[::-1]
  squares = np.cumsum(np.square(eta * norms)[::-1])[::-1]
  start = 0.5 * distance**2 / left[0]
  steps = 0.5 * squares[0] / left[0]
  k = slice(0, eta.size - 1)
  steps += 0.5 * float(np.sum(eta[k] / left[1:] / left[k] * squares[k]))
  if steps == 0:  # no gradient: any rate will do, and the larger the better
    return Bound(start, math.inf, 0.0)
  best = math.sqrt(start / steps)
  return Bound(start + steps, best, 2.0 * math.sqrt(start * steps))


def bound_curve(
  rates: ArrayLike,
  gradient_norms: ArrayLike = 1.0,
  distance: float = 1.0,
  points: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
  """The bound along a run: after so many of its steps, as if they were all.

  O(points * T). There is no bound before the first rate above 0.

  Args:
    rates, gradient_norms, distance: see `last_iterate_bound`.
    points: most steps at which the bound is computed; evenly spread, the last
      one among them.

  Returns:
    The steps, counted from 1, and the bounds; two arrays of shape=(n,).
  """
  check_count('points', points)
  all_rates = np.asarray(rates, float)
  eta, norms = _checked(rates, gradient_norms, distance)
  first = int(np.argmax(all_rates > 0)) + 1
  spread = np.linspace(all_rates.size, first, points).round().astype(int)
  steps = np.unique(spread)
  values = [
    last_iterate_bound(eta[:t], norms[:t], distance).value for t in steps
  ]
  return steps, np.array(values)


def _checked(
  rates: ArrayLike, gradient_norms: ArrayLike, distance: float
) -> tuple[np.ndarray, np.ndarray]:
  """Rates up to the last one above 0, and as many norms, in float64."""
  eta = np.asarray(rates, float)
  is_usable = eta.ndim == 1 and bool(np.all(np.isfinite(eta) & (eta >= 0)))
  is_usable = is_usable and bool(np.any(eta > 0))
  must_be = 'finite numbers of at least 0, one for each step, not all 0'
  check(is_usable, 'rates', rates, must_be)
  norms = np.asarray(gradient_norms, float)
  must_be = f'one number of at least 0, or {eta.size}'
  is_usable = norms.shape in ((), eta.shape)
  is_usable = is_usable and bool(np.all(np.isfinite(norms) & (norms >= 0)))
  check(is_usable, 'gradient_norms', gradient_norms, must_be)
  check_number('distance', distance, '(0, inf)')
  last = int(np.flatnonzero(eta)[-1]) + 1
  return eta[:last], np.broadcast_to(norms, eta.shape)[:last]

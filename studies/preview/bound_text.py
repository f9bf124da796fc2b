"""What the bound for convex functions says about the shape of a plan."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping

import numpy as np

from ..text_table import table_lines
from .convergence_bound import BestBaseRate, best_base_rate

_WIDTH = 80
_COOLDOWN = 0.2  # WSD's last part, as a fraction of the steps
_MEANING = (
  'With its highest rate at gamma*, the best there is, SGD on a convex '
  'function ends at most Omega* above the minimum, in expectation; D is the '
  'distance at the start and G the largest norm of a gradient. That '
  'compares shapes of equal length. It knows neither Adam nor networks nor '
  'resets: a chain counts as one descent. WSD is constant and then falls '
  f'linearly over {_COOLDOWN:.0%} of the steps; neither it nor the cosine '
  'cycle has a warm-up.'
)


def cosine_rates(steps: int) -> np.ndarray:
  """(1 + cos(pi t / T)) / 2 for t = 0..T-1."""
  return (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2


def wsd_rates(steps: int) -> np.ndarray:
  """1, then (T - t) / (0.2 T), for t = 0..T-1; WSD without its warm-up."""
  left = steps - np.arange(steps)
  return np.minimum(1.0, left / (_COOLDOWN * steps))


def best_of_shape(rates: np.ndarray) -> BestBaseRate:
  """gamma* and Omega* for D = G = 1 and rates scaled to a highest one of 1.

  Steps with a rate of 0 at the end are left out: they change nothing, and the
  bound, which divides by the last rate, is infinite with them.

  Args:
    rates: shape=(T,).

  Returns:
    0 and infinity if all rates are 0.
  """
  moving = np.trim_zeros(np.asarray(rates, np.float64), 'b')
  if moving.size == 0:
    return BestBaseRate(0.0, math.inf)
  return best_base_rate(moving / moving.max())


def compare(rates: np.ndarray) -> Mapping[str, BestBaseRate]:
  """The plan beside one cosine cycle and WSD of as many steps."""
  return {
    'this plan': best_of_shape(rates),
    'one cosine cycle': best_of_shape(cosine_rates(rates.size)),
    'WSD': best_of_shape(wsd_rates(rates.size)),
  }


def bound_lines(rates: np.ndarray) -> list[str]:
  """The comparison as a table, and what it means.

  Args:
    rates: shape=(T,); those at which the steps are taken.
  """
  rows = [
    (name, f'{best.gamma:#.4g}', f'{best.bound:#.4g}')
    for name, best in compare(rates).items()
  ]
  return [
    "Bound on SGD's last iterate for D = G = 1:",
    *table_lines([('schedule', 'gamma*', 'Omega*'), *rows]),
    *textwrap.wrap(_MEANING, _WIDTH),
    *textwrap.wrap(_zeros_at_the_end(rates), _WIDTH),
  ]


def _zeros_at_the_end(rates: np.ndarray) -> str:
  zeros = rates.size - np.trim_zeros(rates, 'b').size
  if zeros == 0:
    return ''
  if zeros == rates.size:
    return 'All rates of the plan are 0: nothing moves.'
  which = 'step has' if zeros == 1 else f'{zeros:,} steps have'
  return (
    f"The plan's last {which} a rate of 0. The bound divides by the last rate "
    'and would be infinite; a step that changes nothing is left out instead.'
  )

"""A plan before anything is trained: its cycles, its picture, its bound."""

from __future__ import annotations

import itertools
import pathlib
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from ...core.schedules import PlannedCycle
from .. import paths, plans
from ..plans import RunPlan, shown
from ..text_table import table_lines
from .convergence_bound import best_base_rate

_WIDTH = 80
_POINTS = 2000  # of a picture, about three per pixel of its width
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


def plan_lines(name: str, plan: RunPlan) -> Iterator[str]:
  """All that a terminal shows of a plan.

  Raises:
    ValueError: if the chain doesn't fit into its steps, or has an impossible
      rate.
  """
  plans.check(plan)
  rates = plans.planned_rates(plan)
  yield (
    f'{name}: {rates.size:,} steps, {plan.params.budget_factor:g} times a '
    f'step_hint of {plan.step_hint:,}.'
  )
  yield from table_lines(cycle_rows(plan.cycles))
  decided = plans.what_evaluations_decide(plan.params)
  yield 'First and last step are counted from 1. ' + (
    'In a run, evaluations decide:' if decided else 'This is what will happen.'
  )
  for sentence in decided:
    yield from textwrap.wrap(
      sentence, _WIDTH, initial_indent='- ', subsequent_indent='  '
    )
  yield from ('', *bound_lines(rates))


def save_picture(path: pathlib.Path, name: str, plan: RunPlan) -> None:
  """Draws the learning rate over steps, with a line at each new cycle.

  Where a race tries factors on the peaks, each has a curve.
  """
  from matplotlib.figure import Figure  # a terminal needs none

  from ..run_plot import FAR_APART, scale_rates

  rates = plans.planned_rates(plan)
  starts = [*itertools.accumulate(cycle.steps for cycle in plan.cycles)][:-1]
  points = np.linspace(0, rates.size - 1, _POINTS).astype(np.int64)
  steps = np.unique(np.append(points, starts).astype(np.int64))
  race = plan.params.race
  factors = race.peaks if race else (1.0,)
  greys = [f'{0.3 + 0.2 * i:.1f}' for i in range(1, len(factors))]
  figure = Figure((7, 3), dpi=120, layout='constrained')
  axes = figure.subplots()
  title = f'{name}, step_hint {plan.step_hint:,}; dashed: a new cycle starts'
  axes.set_title(title, loc='left', fontsize='medium')
  for factor, color in zip(factors, ['tab:blue', *greys]):
    axes.plot(steps, factor * rates[steps], color=color, label=f'x {factor:g}')
  for start in starts:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  scale_rates(axes, steps, rates[steps], starts)
  if len(factors) > 1:
    axes.set_yscale('log')
    axes.set_ylim(bottom=float(min(factors) * rates.max()) / FAR_APART)
    axes.legend(fontsize='small', title='tried in a race')
  axes.set_xlim(0, rates.size)
  axes.set_xlabel('global step')
  axes.set_ylabel('learning rate')
  paths.save_picture(figure, path)


def cycle_rows(cycles: Sequence[PlannedCycle]) -> list[tuple[str, ...]]:
  """A header and a row for each cycle when none is left early.

  Returns:
    Number of the cycle; its first and last step, counted from 1 as evaluations
    count them; shape and steps of the warm-up; peak and decay; share of all
    steps.
  """
  ends = list(itertools.accumulate(cycle.steps for cycle in cycles))
  settings = [cycle.setting for cycle in cycles]
  columns = {
    'cycle': [f'{i + 1}' for i in range(len(cycles))],
    'first': [f'{e - c.steps + 1:,}' for e, c in zip(ends, cycles)],
    'last': [f'{end:,}' for end in ends],
    'warm-up': [shown(setting.warmup) for setting in settings],
    'steps': [f'{cycle.warmup_steps:,}' for cycle in cycles],
    'peak': [f'{setting.peak:.4g}' for setting in settings],
    'decay': [shown(setting.decay) for setting in settings],
    'share': [f'{cycle.steps / ends[-1]:.1%}' for cycle in cycles],
  }
  return [tuple(columns), *zip(*columns.values())]


def bound_lines(rates: np.ndarray) -> list[str]:
  """The bound of a plan beside those of one cosine cycle and of WSD.

  All have D = G = 1, as many steps, and a highest rate of 1. Steps with a rate
  of 0 at the end are left out: they change nothing, and the bound, which
  divides by the last rate, is infinite with them.

  Args:
    rates: shape=(T,), at which the plan's steps are taken.
  """
  count = rates.size
  t = np.arange(count)
  shapes = {
    'this plan': rates,
    'one cosine cycle': (1 + np.cos(np.pi * t / count)) / 2,
    'WSD': np.minimum(1.0, (count - t) / (_COOLDOWN * count)),
  }
  rows = [('schedule', 'gamma*', 'Omega*')]
  for name, values in shapes.items():
    moving = np.trim_zeros(np.asarray(values, np.float64), 'b')
    gamma, bound = 0.0, np.inf
    if moving.size:
      gamma, bound = best_base_rate(moving / moving.max())
    rows.append((name, f'{gamma:#.4g}', f'{bound:#.4g}'))
  zeros = count - np.trim_zeros(rates, 'b').size
  said = f'Left out: the last {zeros:,} steps, at a rate of 0.'
  return [
    "Bound on SGD's last iterate for D = G = 1:",
    *table_lines(rows),
    *textwrap.wrap(_MEANING, _WIDTH),
    *([said] if zeros else []),
  ]

"""A plan before anything is trained: its cycles and its picture."""

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

_WIDTH = 80
_POINTS = 2000  # of a picture, about three per pixel of its width


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


def save_picture(path: pathlib.Path, name: str, plan: RunPlan) -> None:
  """Draws the learning rate over steps, with a line at each new cycle."""
  from matplotlib.figure import Figure  # a terminal needs none

  from ..run_plot import scale_rates

  rates = plans.planned_rates(plan)
  starts = [*itertools.accumulate(cycle.steps for cycle in plan.cycles)][:-1]
  points = np.linspace(0, rates.size - 1, _POINTS).astype(np.int64)
  steps = np.unique(np.append(points, starts).astype(np.int64))
  figure = Figure((7, 3), dpi=120, layout='constrained')
  axes = figure.subplots()
  title = f'{name}, step_hint {plan.step_hint:,}; dashed: a new cycle starts'
  axes.set_title(title, loc='left', fontsize='medium')
  axes.plot(steps, rates[steps])
  for start in starts:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  scale_rates(axes, steps, rates[steps], starts)
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

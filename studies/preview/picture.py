"""The picture of a planned learning rate, and of a scheduled weight decay."""

from __future__ import annotations

import pathlib

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...schedule_params import ScheduleParams
from ...schedules import lr_schedule
from ...training import records
from .. import pictures
from .position import planned_weight_decays


def save_picture(
  path: pathlib.Path, step_hint: int, params: ScheduleParams, title: str
) -> None:
  """Draws the learning rate over steps, with a line at each new cycle.

  Where the weight decay is scheduled, it has a second panel below.

  Args:
    path: PNG file to write; an existing one is replaced.
    step_hint: the workload's, steps.
    params: the chain.
    title: of the picture.
  """
  figure = Figure(dpi=120, layout='constrained')
  draw_plan(figure, step_hint, params, title)
  pictures.save(figure, path)


def draw_plan(
  figure: Figure, step_hint: int, params: ScheduleParams, title: str
) -> None:
  """The panels on a figure without axes; sets its size."""
  decays = planned_weight_decays(step_hint, params)
  panels = 1 if decays is None else 2
  figure.set_size_inches(7, 3 * panels)
  axes = figure.subplots(panels, sharex=True, squeeze=False)[:, 0]
  records.plot_schedule(axes[0], step_hint, params)
  axes[0].set_title(title, loc='left', fontsize='medium')
  if decays is not None:
    axes[0].set_xlabel('')
    starts = np.cumsum(lr_schedule.cycle_lengths(step_hint, params))[:-1]
    _plot_decays(axes[1], decays, starts)


def _plot_decays(axes: Axes, decays: np.ndarray, starts: np.ndarray) -> None:
  # As many points as the learning rate has.
  steps = np.unique(np.linspace(0, decays.size - 1, 2000).astype(np.int32))
  axes.plot(steps, decays[steps], color='tab:orange')
  for start in starts:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_ylim(bottom=0)
  axes.set_xlabel('global step')
  axes.set_ylabel('weight decay')

"""The picture of a planned learning rate, and of a scheduled weight decay."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from absl import logging

from ..control.policies import POLICIES
from ..schedule_params import ScheduleParams
from ..schedules import lr_schedule
from ..settings.named import name_of
from .writing import write_whole

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

SCHEDULE_PICTURE = 'lr_schedule.png'
_TITLE = 'Planned learning rate; dashed: a new cycle starts'
_FREE_TITLE = 'Settings in order, of which {} chooses; dashed: the next one'
# About three per pixel of the picture's width.
_POINTS = 2000
# Peaks with a larger ratio need a logarithmic axis.
_FAR_APART = 30.0


class _Curves(NamedTuple):
  """The curves of a picture, sampled at some of the steps."""

  steps: np.ndarray  # shape=(n,), int32
  rates: np.ndarray  # shape=(n,)
  decays: np.ndarray | None  # shape=(n,); None if nothing is scheduled
  starts: tuple[int, ...]  # first step of each cycle but the first
  horizon: int  # first step after the chain


def _curves(step_hint: int, params: ScheduleParams) -> _Curves:
  cycles = lr_schedule.lay_out(step_hint, params)
  schedule, _, starts = lr_schedule.static_chain(cycles)
  horizon = sum(cycle.steps for cycle in cycles)
  steps = np.unique(np.linspace(0, horizon - 1, _POINTS).astype(np.int32))
  decay = lr_schedule.static_weight_decay(cycles)
  decays = None if decay is None else np.asarray(jax.vmap(decay)(steps))
  rates = np.asarray(jax.vmap(schedule)(steps))
  return _Curves(steps, rates, decays, starts, horizon)


def draw_plan(
  figure: Figure, step_hint: int, params: ScheduleParams, title: str
) -> None:
  """Draws a plan: the learning rate and, if it is scheduled, the weight decay.

  The weight decay has a second panel. Dashed lines: a new cycle starts.

  Args:
    figure: without axes; its size is set here.
    step_hint: the workload's step_hint, steps.
    params: the settings.
    title: title of the picture.
  """
  curves = _curves(step_hint, params)
  panels = 1 if curves.decays is None else 2
  figure.set_size_inches(7, 3 * panels)
  axes = figure.subplots(panels, sharex=True, squeeze=False)[:, 0]
  axes[0].set_title(title, loc='left', fontsize='medium')
  _plot(axes[0], curves, curves.rates, 'learning rate', 'tab:blue')
  if curves.decays is not None:
    _plot(axes[1], curves, curves.decays, 'weight decay', 'tab:orange')
  axes[-1].set_xlabel('global step')


def _plot(
  axes: Axes, curves: _Curves, values: np.ndarray, name: str, color: str
) -> None:
  axes.plot(curves.steps, values, color=color)
  for start in curves.starts:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_xlim(0, curves.horizon)
  axes.set_ylabel(name)
  scale_rates(axes, curves.steps, values, curves.starts)


def scale_rates(
  axes: Axes, steps: np.ndarray, values: np.ndarray, starts: Sequence[int]
) -> None:
  """Makes the y axis logarithmic if cycles' highest values are far apart.

  Args:
    axes: matplotlib axes in which the values are drawn.
    steps: shape=(n,), rising.
    values: shape=(n,), at these steps; none below 0.
    starts: first step of each cycle but the first.
  """
  parts = np.split(values, np.searchsorted(steps, starts))
  highest = [float(part.max()) for part in parts if part.size]
  if highest and max(highest) > _FAR_APART * min(highest) > 0:
    axes.set_yscale('log')
    axes.set_ylim(bottom=min(highest) / _FAR_APART)
  else:
    axes.set_ylim(bottom=0)


def chooses_freely(params: ScheduleParams) -> bool:
  """Whether the policy itself chooses the order of the chain's settings."""
  return not POLICIES.make(params.policy).follows_chain


def draw_schedule(
  folder: pathlib.Path, step_hint: int, params: ScheduleParams
) -> None:
  """Writes the picture of the plan to a folder, if matplotlib is installed."""
  try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
  except ImportError:
    logging.info('matplotlib is missing: no %s.', SCHEDULE_PICTURE)
    return
  figure = Figure(layout='constrained')
  canvas = FigureCanvasAgg(figure)
  title = _TITLE
  if chooses_freely(params):
    title = _FREE_TITLE.format(name_of(params.policy))
  draw_plan(figure, step_hint, params, title)
  picture = io.BytesIO()
  canvas.print_png(picture)
  write_whole(folder / SCHEDULE_PICTURE, picture.getvalue())

"""What is marked in a figure beside its curves: resets, switches, phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...experiments import thesis
from ..runs.table import RunTable
from . import figure_data

if TYPE_CHECKING:
  from matplotlib.axes import Axes

_GREY, _PURPLE = '#888888', '#CC79A7'
_WARMUP, _DECAY = '#E69F00', '#56B4E9'

Runs = Mapping[str, Sequence[RunTable]]


def mark_resets(axes: Axes, runs: Runs, x_axis: str) -> None:
  """A vertical line where the seeds' n-th resets are, at their median.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  lines = {
    reset.x
    for tables in runs.values()
    for reset in figure_data.resets(tables, x_axis)
  }
  for x in sorted(lines):
    axes.axvline(x, color=_GREY, linestyle='-.', linewidth=0.8, zorder=1)


def write_taus(axes: Axes, runs: Runs, x_axis: str) -> None:
  """tau over the axes at each reset; that of soft resets, if there are any.

  That of the other modes is no measurement, and is written where nothing else
  would be.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  soft = [name for name in runs if thesis.RUNS[name].reset_mode == 'soft']
  for name in soft or list(runs)[:1]:
    for reset in figure_data.resets(runs[name], x_axis):
      axes.annotate(
        figure_data.describe_taus(reset.taus),
        (reset.x, 1.0),
        xycoords=('data', 'axes fraction'),
        xytext=(0, 3),
        textcoords='offset points',
        ha='center',
        va='bottom',
        fontsize='small',
        annotation_clip=False,
      )


def mark_switches(axes: Axes, runs: Runs, x_axis: str) -> None:
  """A triangle on the axis for every early switch of every seed.

  Args:
    axes: matplotlib axes.
    runs: tables by run, a seed each.
    x_axis: 'steps' or 'time'.
  """
  xs = [
    x
    for tables in runs.values()
    for table in tables
    for x in figure_data.positions(
      table, np.array([step for step, _ in table.switches]), x_axis
    )
  ]
  if xs:
    axes.plot(
      xs,
      np.zeros(len(xs)),
      transform=axes.get_xaxis_transform(),
      marker='^',
      markersize=7,
      color=_PURPLE,
      alpha=0.7,
      linestyle='',
      clip_on=False,
      zorder=5,
      label='early switch',
    )


def shade_phases(axes: Axes, table: RunTable, x_axis: str) -> None:
  """Warm-ups in orange and decays in blue, as in the thesis' figure 2.1.

  Args:
    axes: matplotlib axes.
    table: the run.
    x_axis: 'steps' or 'time'.
  """
  ends = [*table.cycle_starts[1:], table.last_step]
  for i, ((start, middle), end) in enumerate(zip(table.warmups, ends)):
    x = figure_data.positions(table, np.array([start, middle, end]), x_axis)
    for left, right, color, label in (
      (x[0], x[1], _WARMUP, 'warm-up'),
      (x[1], x[2], _DECAY, 'decay'),
    ):
      axes.axvspan(
        left,
        right,
        color=color,
        alpha=0.3,
        linewidth=0,
        label=None if i else label,
      )

"""The picture of a planned learning rate, and of a scheduled weight decay."""

from __future__ import annotations

import pathlib

from matplotlib.figure import Figure

from ...schedule_params import ScheduleParams
from ...training.picture import draw_plan
from .. import pictures


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

"""The picture of a planned learning rate."""

from __future__ import annotations

import io
import pathlib

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .. import records
from ..schedule_params import ScheduleParams
from . import files


def save_picture(
  path: pathlib.Path, step_hint: int, params: ScheduleParams, title: str
) -> None:
  """Draws the learning rate over steps, with a line at each new cycle.

  Args:
    path: PNG file to write; an existing one is replaced.
    step_hint: the workload's, steps.
    params: the chain.
    title: of the picture.
  """
  figure = Figure(figsize=(7, 3), dpi=120, layout='constrained')
  canvas = FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  records.plot_schedule(axes, step_hint, params)
  axes.set_title(title, loc='left', fontsize='medium')
  picture = io.BytesIO()
  canvas.print_png(picture)
  files.write_whole(path, picture.getvalue())

"""How a picture gets into its file."""

from __future__ import annotations

import io
import pathlib

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..mini_algoperf import files


def save(figure: Figure, path: pathlib.Path) -> None:
  """Writes a figure as PNG, whole; an existing file is replaced.

  Args:
    figure: without a canvas; no window and no LaTeX is needed.
    path: file to write.
  """
  content = io.BytesIO()
  FigureCanvasAgg(figure).print_png(content)
  files.write_whole(path, content.getvalue())

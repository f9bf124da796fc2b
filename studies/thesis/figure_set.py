"""The thesis' figures from logs: which runs they need, and their pictures."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...experiments import thesis
from ...mini_algoperf.workloads import WORKLOADS
from .. import pictures
from ..runs.table import read_run
from . import figure_plots
from .run_logs import Job, RunLog


def wanted_jobs(
  figures: Iterable[thesis.ThesisFigure], seeds: Iterable[int]
) -> list[Job]:
  """The runs of the figures with all seeds, seed by seed."""
  figures = tuple(figures)
  return [
    Job(figure.workload.stand_in, name, seed)
    for seed in seeds
    for figure in figures
    for name in figure.runs
  ]


def draw_all(
  figures: Mapping[str, thesis.ThesisFigure],
  logs: Sequence[RunLog],
  out: pathlib.Path,
  x_axis: str | None,
) -> Iterator[pathlib.Path]:
  """Draws each figure once for each workload that has logs of all its runs.

  Args:
    figures: by their names.
    logs: all logs; seeds beyond those asked for are shown as well.
    out: folder of the pictures.
    x_axis: 'steps' or 'time'; None: each figure's own.

  Yields:
    The pictures' paths, <figure>_<workload>.png.
  """
  # Most runs are in several figures.
  read = functools.lru_cache(maxsize=None)(read_run)
  for workload in sorted({log.job.workload for log in logs}):
    for name, figure in figures.items():
      runs = {
        run: [log for log in logs if log.job[:2] == (workload, run)]
        for run in figure.runs
      }
      if not all(runs.values()) or not _is_shown_on(figure, workload):
        continue
      picture = figure_plots.draw_figure(
        name,
        figure,
        {run: [read(log.log_dir) for log in runs[run]] for run in runs},
        x_axis or figure.x_axis,
      )
      path = out / f'{name}_{workload}.png'
      pictures.save(picture, path)
      yield path


def _is_shown_on(figure: thesis.ThesisFigure, workload: str) -> bool:
  """Of our workloads the stand-in alone; of the benchmark's any with logs."""
  return workload == figure.workload.stand_in or workload not in WORKLOADS

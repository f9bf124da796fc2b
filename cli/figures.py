"""`soft-reset figures`: trains what has no logs yet, and draws."""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ..experiments import thesis
from ..mini_algoperf import files
from ..mini_algoperf.workloads import WORKLOADS
from ..studies.runs.table import read_run
from ..studies.thesis import figure_plots, run_logs, train
from ..studies.thesis.run_logs import Job, RunLog
from . import errors, flag_parsing, study_flags
from . import run as run_command


class Plan(NamedTuple):
  """A command line that was checked."""

  figures: Mapping[str, thesis.ThesisFigure]
  roots: list[pathlib.Path]  # folders of logs, among them that of new runs
  new: pathlib.Path
  seeds: range
  out: pathlib.Path
  x_axis: str | None  # None: each figure's own
  num_workers: int


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset figures`.

  Raises:
    errors.SetupError: for bad input, before anything is trained.
  """
  with contextlib.ExitStack() as stack:
    with errors.setup_phase():
      values = stack.enter_context(
        flag_parsing.parsed_flags(
          'soft-reset figures', arguments, study_flags.FIGURES_FLAGS
        )
      )
      plan = make_plan(values)
      roots = stack.enter_context(run_logs.unpacked(plan.roots))
      logs = run_logs.find_logs(roots)
      missing = run_logs.missing_jobs(wanted_jobs(plan), logs)
      run_logs.check_places(missing, plan.new)
      plan.out.mkdir(parents=True, exist_ok=True)
    train.train_all(
      missing,
      plan.new,
      plan.num_workers,
      functools.partial(train.train, command=run_command.run),
    )
    with errors.reading_logs():
      for path in draw_all(plan, run_logs.find_logs(roots)):
        print(path)
  return 0


def make_plan(values: flags.FlagValues) -> Plan:
  """Checks the flags.

  Args:
    values: parsed flags.

  Raises:
    ValueError: for an unknown figure or a folder that isn't there.
  """
  names = values.only.split(',') if values.only else list(thesis.FIGURES)
  return Plan(
    figures={name: thesis.find_figure(name) for name in names},
    roots=log_roots(values),
    new=pathlib.Path(values.runs).expanduser(),
    seeds=range(1, values.seeds + 1),
    out=pathlib.Path(values.out).expanduser(),
    x_axis=values.x,
    num_workers=values.workers,
  )


def log_roots(values: flags.FlagValues) -> list[pathlib.Path]:
  """The folders of logs: the user's, the project's, that of new runs.

  Args:
    values: parsed flags; the folder of new runs is made if it isn't there.

  Raises:
    ValueError: if one of the user's folders isn't there.
  """
  given = values.logs.split(',') if values.logs else []
  roots = [pathlib.Path(text).expanduser() for text in given]
  for root in roots:
    if not root.is_dir():
      raise ValueError(f'--logs={root}: there is no such folder.')
  if values.shipped and thesis.LOGS.is_dir():
    roots.append(thesis.LOGS)
  new = pathlib.Path(values.runs).expanduser()
  new.mkdir(parents=True, exist_ok=True)
  return [*roots, new]


def wanted_jobs(plan: Plan) -> list[Job]:
  """The runs of the figures with all seeds, seed by seed."""
  return [
    Job(figure.workload.stand_in, name, seed)
    for seed in plan.seeds
    for figure in plan.figures.values()
    for name in figure.runs
  ]


def draw_all(plan: Plan, logs: Sequence[RunLog]) -> Iterable[pathlib.Path]:
  """Draws each figure once for each workload that has logs of all its runs.

  Args:
    plan: what is drawn.
    logs: all logs; seeds beyond those asked for are shown as well.

  Yields:
    The pictures' paths, <figure>_<workload>.png.
  """
  # Most runs are in several figures.
  read = functools.lru_cache(maxsize=None)(read_run)
  for workload in sorted({log.job.workload for log in logs}):
    for name, figure in plan.figures.items():
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
        plan.x_axis or figure.x_axis,
      )
      path = plan.out / f'{name}_{workload}.png'
      save(picture, path)
      yield path


def _is_shown_on(figure: thesis.ThesisFigure, workload: str) -> bool:
  """Of our workloads the stand-in alone; of the benchmark's any with logs."""
  return workload == figure.workload.stand_in or workload not in WORKLOADS


def save(picture: Any, path: pathlib.Path) -> None:
  """Writes a figure as PNG, whole."""
  content = io.BytesIO()
  FigureCanvasAgg(picture).print_png(content)
  files.write_whole(path, content.getvalue())

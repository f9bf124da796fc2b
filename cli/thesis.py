"""`soft-reset experiments`, `figures` and `results`: the thesis' runs."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from . import errors, flags, signals

if TYPE_CHECKING:
  from ..studies.thesis.logs import Job, RunLog

MOST_SEEDS = 10_000


def _log_flags(command: Callable[..., Any]) -> Callable[..., Any]:
  """Adds the flags: where logs are, and how missing ones are made."""
  for add in (
    flags.option(
      'workers',
      click.IntRange(1, 1000),
      default=2,
      help='How many runs are trained at a time, one thread each.',
    ),
    flags.option(
      'runs',
      flags.FILE,
      metavar='DIR',
      default='experiment_runs/thesis',
      help='Folder for the runs that are trained; runs already in it are used, '
      'too.',
    ),
    flags.switch(
      'shipped',
      'Use the logs that come with the project; else train all runs.',
      default=True,
    ),
    flags.option(
      'logs',
      metavar='DIRS',
      help="Folders of logs, also of the benchmark's runner, separated by "
      "commas. They take precedence over the project's own logs. Runs of ours "
      'that have not finished, or were evaluated at other steps, are skipped.',
    ),
  ):
    command = add(command)
  return command


@click.command(cls=flags.Command, short_help="list the thesis' figures")
@click.argument('figure', required=False)
def experiments(figure: str | None) -> int:
  """Lists the figures of the thesis, or explains one, such as fig3.8a.

  Its runs' settings and cycles, and the commands that train them here and on
  the benchmark.
  """
  with signals.ending_at_once():
    from ..studies.thesis import figure_text
  with errors.setup_phase():
    text = (
      figure_text.list_text()
      if figure is None
      else figure_text.figure_text(figure)
    )
  print(text)
  return 0


@click.command(cls=flags.Command, short_help="draw the thesis' figures")
@flags.option(
  'only',
  metavar='NAMES',
  help='Figures, separated by commas, such as fig3.8a,fig3.11. Default: all.',
)
@flags.option(
  'seeds',
  click.IntRange(1, MOST_SEEDS),
  default=1,
  help='Trains the missing ones of seeds 1 to N. All seeds with logs are shown.',
)
@flags.option(
  'out',
  flags.FILE,
  metavar='DIR',
  default='experiment_figures',
  help='Folder for the pictures.',
)
@flags.overwrite
@flags.option(
  'x',
  ['steps', 'time'],
  help="Horizontal axis. Default: the figure's own, steps except in fig3.1.",
)
@_log_flags
def figures(
  only: str | None,
  seeds: int,
  out: str,
  overwrite: bool,
  x: str | None,
  **log_options: Any,
) -> int:
  """Draws the thesis' figures from logs, <figure>_<workload>.png each.

  Runs without logs are trained first, on the stand-ins; the benchmark's logs,
  given by --logs, get pictures of their own. Several seeds of a run are shown by
  their median and quartiles.
  """
  with signals.ending_at_once():
    from ..studies.thesis import figures as drawing
    from ..studies.thesis import registry
  with errors.setup_phase():
    names = only.split(',') if only is not None else registry.FIGURES
    chosen = {name: registry.find_figure(name) for name in names}
    folder = pathlib.Path(out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    jobs = drawing.wanted_jobs(chosen.values(), range(1, seeds + 1))
    with _complete_logs(jobs, **log_options) as logs:
      for path in drawing.draw_all(chosen, logs, folder, x, overwrite):
        print(path)
  return 0


@click.command(cls=flags.Command, short_help="measure the thesis' claims")
@flags.option(
  'seeds',
  click.IntRange(10, MOST_SEEDS),
  default=10,
  help='Measure seeds 1 to N.',
)
@flags.option(
  'out',
  flags.FILE,
  metavar='FILE',
  default='RESULTS.md',
  help='Markdown file to write.',
)
@flags.overwrite
@flags.option(
  'pack',
  flags.FILE,
  metavar='DIR',
  help='Folder for archives of all logs found. Default: none.',
)
@_log_flags
def results(
  seeds: int, out: str, overwrite: bool, pack: str | None, **log_options: Any
) -> int:
  """Measures the thesis' claims over seeds on the three small workloads.

  Writes the findings, after training the runs that have no logs.
  """
  with signals.ending_at_once():
    from ..mini_algoperf import files
    from ..studies import paths
    from ..studies.thesis import logs
    from ..studies.thesis import results as findings
  numbers = range(1, seeds + 1)
  jobs = findings.wanted_jobs(numbers)
  command = f'soft-reset results --seeds={seeds} --out={out}'
  with errors.setup_phase():
    page = paths.new_file(out, overwrite)
    archives = pathlib.Path(pack).expanduser() if pack else None
    if archives:
      archives.mkdir(parents=True, exist_ok=True)
    with _complete_logs(jobs, **log_options) as found:
      wanted = set(jobs)
      used = [log for log in found if log.job in wanted]
      files.write_whole(page, findings.measure(command, numbers, used))
      if archives:
        logs.pack(found, archives)
  print(page)
  return 0


def _complete_logs(
  jobs: Sequence[Job], logs: str | None, shipped: bool, runs: str, workers: int
) -> contextlib.AbstractContextManager[list[RunLog]]:
  """All logs there are, after training the jobs that have none.

  Raises:
    ValueError: if a folder of --logs does not exist.
    RunFailed: if a run fails.
  """
  from ..studies import paths
  from ..studies.thesis import logs as logs_lib
  from ..studies.thesis import registry

  given = logs.split(',') if logs is not None else []
  roots = [paths.folder('--logs=', text) for text in given]
  if shipped and registry.LOGS.is_dir():
    roots.append(registry.LOGS)
  new = pathlib.Path(runs).expanduser()
  return logs_lib.complete_logs(jobs, roots, new, workers, _run)


def _run(words: Sequence[str]) -> int:
  """`soft-reset run`, in a worker."""
  from . import main

  return main.main(['run', *words])

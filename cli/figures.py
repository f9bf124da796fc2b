"""`soft-reset figures`: trains runs that have no logs yet, and draws."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import arguments, errors, signals

if TYPE_CHECKING:
  from ..studies.thesis.run_logs import Job, RunLog

SUMMARY = "draw the thesis' figures from logs, training runs without logs"
USAGE = '[flags]'
DESCRIPTION = (
  "Draws the thesis' figures from logs, <figure>_<workload>.png each. Runs "
  "without logs are trained first, on the stand-ins; the benchmark's logs, "
  'given by --logs, get pictures of their own. Several seeds of a run are '
  'shown by their median and quartiles.'
)
MOST_SEEDS = 10_000


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: which figures, and from which logs."""
  group = parser.add_argument_group('figures')
  group.add_argument(
    '--only',
    metavar='NAMES',
    help='Figures, separated by commas, such as fig3.8a,fig3.11. Default: all.',
  )
  group.add_argument(
    '--seeds',
    metavar='N',
    type=arguments.whole(1, MOST_SEEDS),
    default=1,
    help='Trains the missing ones of seeds 1 to N. All seeds with logs are '
    'shown.',
  )
  group.add_argument(
    '--out',
    metavar='DIR',
    type=os.path.expanduser,
    default='experiment_figures',
    help='Folder for the pictures; existing ones are replaced.',
  )
  group.add_argument(
    '--x',
    choices=('steps', 'time'),
    help="Horizontal axis. Default: the figure's own, steps except in fig3.1.",
  )
  add_log_flags(parser)


def add_log_flags(parser: arguments.Parser) -> None:
  """Adds the flags: where logs are, and how missing ones are made."""
  group = parser.add_argument_group('logs')
  group.add_argument(
    '--logs',
    metavar='DIRS',
    help="Folders of logs, also of the benchmark's runner, separated by "
    "commas. They take precedence over the project's own logs. Runs of ours "
    'that have not finished, or were evaluated at other steps, are skipped.',
  )
  group.add_argument(
    '--shipped',
    action=arguments.Switch,
    default=True,
    help='Use the logs that come with the project. --noshipped trains all '
    'runs.',
  )
  group.add_argument(
    '--runs',
    metavar='DIR',
    type=os.path.expanduser,
    default='experiment_runs/thesis',
    help='Folder for the runs that are trained; runs already in it are used, '
    'too.',
  )
  group.add_argument(
    '--workers',
    metavar='N',
    type=arguments.whole(1, 1000),
    default=2,
    help='How many runs are trained at a time, one thread each.',
  )


def run(options: argparse.Namespace) -> int:
  """Trains and draws; returns the exit status.

  Raises:
    SetupError: for bad input, or for logs that are damaged.
    RunFailed: if a run fails.
  """
  with signals.ending_at_once():
    from ..experiments import thesis
    from ..studies.thesis import figure_set
  with errors.setup_phase():
    names = options.only.split(',') if options.only else thesis.FIGURES
    figures = {name: thesis.find_figure(name) for name in names}
    out = pathlib.Path(options.out)
    jobs = figure_set.wanted_jobs(figures.values(), range(1, options.seeds + 1))
    with complete_logs(options, jobs, out) as logs:
      for path in figure_set.draw_all(figures, logs, out, options.x):
        print(path)
  return 0


@contextlib.contextmanager
def complete_logs(
  options: argparse.Namespace, jobs: Sequence[Job], *made: pathlib.Path
) -> Iterator[list[RunLog]]:
  """All logs there are, after training the jobs that have none.

  Args:
    options: include those of `add_log_flags`.
    jobs: the wanted runs.
    *made: folders to make before anything is trained.

  Raises:
    ValueError: if a folder of --logs does not exist.
    RunFailed: if a run fails.
  """
  from ..studies.thesis import run_logs, train

  new = pathlib.Path(options.runs)
  with run_logs.unpacked(_log_roots(options)) as roots:
    missing = run_logs.missing_jobs(jobs, run_logs.find_logs(roots))
    run_logs.check_places(missing, new)
    for folder in made:
      folder.mkdir(parents=True, exist_ok=True)
    train.train_all(missing, new, options.workers, _train)
    yield run_logs.find_logs(roots)


def _log_roots(options: argparse.Namespace) -> list[pathlib.Path]:
  """The folders of logs: the user's, the project's, and that of new runs."""
  from ..experiments import thesis

  given = options.logs.split(',') if options.logs else []
  roots = [pathlib.Path(os.path.expanduser(text)) for text in given]
  for root in roots:
    if not root.is_dir():
      raise ValueError(f'--logs={root}: there is no such folder.')
  if options.shipped and thesis.LOGS.is_dir():
    roots.append(thesis.LOGS)
  new = pathlib.Path(options.runs)
  new.mkdir(parents=True, exist_ok=True)
  return [*roots, new]


def _train(job: Job, root: pathlib.Path) -> None:
  """Trains one run, in a worker."""
  from ..studies.thesis import train
  from . import main

  train.train(job, root, command=lambda words: main.main(['run', *words]))

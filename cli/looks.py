"""`reset-cycles report` and `plot`: a look at runs that are there."""

from __future__ import annotations

import pathlib
import time

import click

from ..console import errors
from ..console.flags import FOLDER, PATH, command, option, overwrite
from ..views import paths


@command
@click.argument('folder', metavar='DIR', type=FOLDER)
def plot(folder: pathlib.Path) -> None:
  """Draws metric.png of every trial in a folder.

  The picture has validation metric and target, resets with tau, early switches
  and the learning rate. The trials, of this runner or the benchmark's, may be
  anywhere below the folder.
  """
  with errors.ended_by_signals():
    from ..views import run_plot
  for trial in paths.find_trials(folder):
    print(run_plot.save_metric_plot(trial))


@command
@click.argument(
  'folders', metavar='DIR...', nargs=-1, required=True, type=FOLDER
)
@option('out', 'The page, in HTML.', PATH, default='report.html')
@overwrite
def report(
  folders: tuple[pathlib.Path, ...], out: pathlib.Path, overwrite: bool
) -> None:
  """Writes one HTML page about all trials in folders.

  The page has the metric against the target, cycles with their rates, events
  with their reasons, tau, and settings. The trials, of this runner or the
  benchmark's, may still run.
  """
  page = paths.new_file(out, overwrite, '.html', '.htm')
  trials = {
    trial.resolve(): trial
    for folder in folders
    for trial in paths.find_trials(folder)
  }
  with errors.ended_by_signals():
    from ..views import report as pages
  pages.save_page(list(trials.values()), page, time.time())
  print(page)

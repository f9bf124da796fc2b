"""`soft-reset plot` and `soft-reset report`: what any run's files say."""

from __future__ import annotations

import pathlib
import re
import time

import click

from ..studies import paths
from . import errors, flags, signals


@click.command(cls=flags.Command, short_help='draw the picture of any run')
@click.argument('folder', metavar='DIR', type=flags.FILE)
def plot(folder: str) -> int:
  """Draws metric.png of every trial in a folder.

  Of this runner or the benchmark's: validation metric and target, resets with
  tau, early switches, learning rate. DIR is a trial's folder, or one with
  trials somewhere below it.
  """
  with errors.setup_phase():
    trials = paths.find_trials(folder)
  with signals.ending_at_once():
    from ..studies import run_plot
  with errors.setup_phase():
    for trial in trials:
      print(run_plot.save_metric_plot(trial))
  return 0


@click.command(cls=flags.Command, short_help='write a page about runs')
@click.argument(
  'folders', metavar='DIR...', nargs=-1, required=True, type=flags.FILE
)
@flags.option(
  'out', flags.FILE, metavar='HTML', default='report.html', help='The page.'
)
@flags.overwrite
def report(folders: tuple[str, ...], out: str, overwrite: bool) -> int:
  """Writes one HTML page about all trials in folders, also while they run.

  Of this runner or the benchmark's: metric against target, cycles with their
  rates, events with their reasons, tau, settings. It needs no network.
  """
  with errors.setup_phase():
    page = paths.new_file(out, overwrite, '.html', '.htm')
    trials = {
      trial.resolve(): trial
      for folder in folders
      for trial in sorted(paths.find_trials(folder), key=_by_numbers)
    }
  with signals.ending_at_once():
    from ..studies import report as pages
  with errors.setup_phase():
    pages.save_page(list(trials.values()), page, time.time())
  print(page)
  return 0


def _by_numbers(path: pathlib.Path) -> list[tuple[int, str]]:
  """Puts trial_2 before trial_10."""
  words = re.findall(r'\d+|\D+', str(path))
  return [(int(w) if w.isdecimal() else -1, w) for w in words]

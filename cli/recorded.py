"""`reset-cycles replay`, `score`, `report` and `plot`: on runs that are there."""

from __future__ import annotations

import pathlib
import time

import click

from ..views import paths
from . import errors
from .flags import FOLDER, PATH, command, option, overwrite


@command
@option(
  'rule',
  'Such as thesis, or \'{"name": "progress", "min_share": 0.2}\'.',
  multiple=True,
)
@option(
  'logs', "Folder of the benchmark's logs, in place of recorded runs.", FOLDER
)
def replay(rule: tuple[str, ...], logs: pathlib.Path | None) -> None:
  """Judges switching rules on recorded runs.

  The trials of a study follow one another, each until the rule ends it. What
  counts is how many targets are reached within a budget, how soon, and how many
  runs are ended that would have reached theirs.
  --rule may be repeated. See research/replay/README.md.
  """
  with errors.ended_by_signals():
    from ..research.replay import cases, rules, tables
    from ..research.replay import recorded as reading
  wanted = [rules.read_rule(r) for r in dict.fromkeys(rule or rules.BUILT_IN)]
  found = reading.read_logs(logs) if logs else reading.read_runs()
  recorded = cases.comparable(found)
  shown = [cases.replay(recorded, one) for one in wanted]
  print('\n'.join(tables.lines(tables.figures(shown, tables.BUDGETS))))


@command
@click.argument('folder', metavar='[DIR]', required=False, type=FOLDER)
def score(folder: pathlib.Path | None) -> None:
  """Scores submissions by AlgoPerf's definition.

  Times to the targets, medians over studies, and the area under the performance
  profile up to four times the fastest, relative to those compared. DIR has logs,
  <submission>/study_<i>/<workload>_<framework>/trial_<j>. Default: the
  self-tuning submissions of 2024, as recorded.
  """
  with errors.ended_by_signals():
    from ..research import scores
    from ..research.replay import recorded as reading
  runs = reading.read_logs(folder) if folder else reading.self_tuning()
  print('\n'.join(scores.score_lines(reading.times(runs))))


@command
@click.argument('folder', metavar='DIR', type=FOLDER)
def plot(folder: pathlib.Path) -> None:
  """Draws metric.png of every trial in a folder.

  Of this runner or the benchmark's: validation metric and target, resets with
  tau, early switches, learning rate. The trials may be anywhere below it.
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

  Of this runner or the benchmark's, also while they run: metric against target,
  cycles with their rates, events with their reasons, tau, settings.
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

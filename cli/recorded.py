"""`soft-reset replay` and `soft-reset score`: on runs that are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ..studies import paths
from . import errors, flags, signals

if TYPE_CHECKING:
  from ..studies.real_runs.reading import RecordedRun


@click.command(cls=flags.Command, short_help='judge rules on recorded runs')
@flags.option(
  'rule',
  metavar='NAME_OR_JSON',
  multiple=True,
  help='A switching rule such as progress or \'{"name": "progress", '
  '"min_share": 0.2}\', a race such as \'{"name": "race", "share": 0.06, '
  '"rule": "progress"}\', or never (ends no run) or oracle (knows the future); '
  'may be given several times. Default: never, thesis, floor, progress, race '
  'and oracle.',
)
@flags.option(
  'budget',
  float,
  metavar='FACTOR',
  multiple=True,
  callback=flags.factor,
  help='Budget as a multiple of the maximum runtime; may be given several '
  'times. Default: 1.5 and 3.',
)
@flags.option(
  'by',
  ['workload', 'submission'],
  help='Shows the figures of each workload or submission.',
)
@flags.switch('json', 'Prints a list of JSON objects instead of the table.')
@flags.option(
  'out',
  flags.FILE,
  metavar='PNG',
  help='Picture of what the rules reach within each budget, and of the progress '
  'of all runs.',
)
@flags.overwrite
@flags.switch(
  'costs',
  'Instead of the table: how races change the cases whose first trial reaches '
  'its target under their switching rule (good cases), and the others, compared '
  'with that rule on one trial after the other; and the share of good cases '
  'below which the race reaches more targets, or is faster.',
)
@flags.option(
  'left_out',
  ['workload', 'submission'],
  help='Instead of the table: the results on each workload or submission of the '
  'rule that reaches most on all others, and of all together.',
)
@flags.option(
  'runs',
  flags.FILE,
  metavar='DIR',
  help='Folder with runs.csv, evaluations.npz and workloads.csv. Default: the '
  'runs that come with the project.',
)
@flags.option(
  'logs',
  flags.FILE,
  metavar='DIR',
  help="Folder of the benchmark's logs instead of --runs, with "
  '<submission>/study_<i>/<workload>_<framework>/trial_<j> somewhere below.',
)
def replay(
  rule: tuple[str, ...],
  budget: tuple[float, ...],
  by: str | None,
  json: bool,
  out: str | None,
  overwrite: bool,
  costs: bool,
  left_out: str | None,
  runs: str | None,
  logs: str | None,
) -> int:
  """Judges switching rules and races on runs of the real benchmark.

  The trials of a study follow one another, each until a switching rule ends it,
  or compete in a race. What counts is how many targets are reached within a
  budget, how soon, and how many runs are ended that would have reached theirs.
  studies/real_runs/README.md has the details.
  """
  for one, other, names in (
    (costs, left_out, '--costs and --left_out'),
    (runs, logs, '--runs and --logs'),
  ):
    if one and other:
      raise click.UsageError(f'{names} contradict each other: give one.')
  with signals.ending_at_once():
    from ..studies.replay import cases, rules, tables
  with errors.setup_phase():
    picture = (
      paths.new_file(out, overwrite, '.png') if out is not None else None
    )
    texts = rule or rules.BUILT_IN
    wanted = [rules.read_rule(text) for text in dict.fromkeys(texts)]
    recorded = cases.comparable(_read_runs(runs, logs))
    shown = [cases.replay(recorded, one) for one in wanted]
    budgets = sorted(set(budget or tables.BUDGETS))
    if left_out:
      table = tables.left_out(shown, budgets, left_out)
    elif costs:
      table = tables.costs(shown, budgets, by)
    else:
      table = tables.figures(shown, budgets, by)
  print(_as_json(table.objects) if json else '\n'.join(table.lines))
  if picture:
    from ..studies.replay import picture as drawing

    with errors.setup_phase():
      drawing.save_replay(picture, shown)
  return 0


def _as_json(objects: object) -> str:
  return json.dumps(objects, indent=2)


def _read_runs(runs: str | None, logs: str | None) -> list[RecordedRun]:
  from ..studies.real_runs import reading

  if logs is not None:
    return reading.read_logs(paths.folder('--logs=', logs))
  if runs is not None:
    return reading.read_runs(paths.folder('--runs=', runs))
  return reading.read_runs()


@click.command(
  cls=flags.Command, short_help='score submissions as AlgoPerf does'
)
@click.argument('folder', metavar='[DIR]', required=False, type=flags.FILE)
@flags.option(
  'board',
  help='Which of the recorded runs are compared: v05 (2024), v06 (2025) or a100 '
  '(2026). Default: v05.',
)
@flags.option(
  'ruleset',
  ['self', 'external'],
  help='Ruleset of the recorded runs that are compared. Default: self.',
)
@flags.option(
  'out', flags.FILE, metavar='PNG', help='Picture of the performance profiles.'
)
@flags.overwrite
def score(
  folder: str | None,
  board: str | None,
  ruleset: str | None,
  out: str | None,
  overwrite: bool,
) -> int:
  """Scores submissions by AlgoPerf's definition.

  Times to the targets, medians over studies, and the area under the performance
  profile up to four times the fastest. Scores are relative to the submissions
  that are compared. DIR has the benchmark's logs,
  <submission>/study_<i>/<workload>_<framework>/trial_<j>, or recorded runs, with
  runs.csv; without it, those that come with the project are scored.
  """
  with signals.ending_at_once():
    from ..studies import scores
    from ..studies.real_runs import reading
  with errors.setup_phase():
    picture = (
      paths.new_file(out, overwrite, '.png') if out is not None else None
    )
    place = reading.SHIPPED if folder is None else paths.folder('', folder)
    trials = reading.read_times(place, board, ruleset)
  print('\n'.join(scores.score_lines(trials)))
  if picture:
    with errors.setup_phase():
      scores.save_profiles(picture, scores.entries(trials))
  return 0

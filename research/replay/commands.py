"""Switching rules judged on recorded runs, and runs scored as AlgoPerf does."""

from __future__ import annotations

import pathlib

import click

from ...console import errors
from ...console.flags import COUNT, FOLDER, command, option, switch


@command
@option(
  'rule',
  'Such as thesis, or \'{"name": "progress", "min_share": 0.2}\'.',
  multiple=True,
)
@option(
  'logs', "Folder of the benchmark's logs, in place of recorded runs.", FOLDER
)
@option('evaluations', 'That a rule sees of a whole run. Default: all.', COUNT)
@switch('first_half', 'A rule is heard in the first half of a run only.')
def replay(
  rule: tuple[str, ...],
  logs: pathlib.Path | None,
  evaluations: int | None,
  first_half: bool,
) -> None:
  """Judges switching rules on recorded runs.

  The trials of a study follow one another, each until the rule ends it. What
  counts is how many targets are reached within a budget, how soon, and how many
  runs are ended that would have reached theirs.
  --rule may be repeated. See research/replay/README.md.
  """
  with errors.ended_by_signals():
    from . import cases, rules, tables
    from . import recorded as reading
  sight = rules.Sight(evaluations, first_half)
  wanted = [rules.read_rule(r) for r in dict.fromkeys(rule or rules.BUILT_IN)]
  found = reading.read_logs(logs) if logs else reading.read_runs()
  recorded = cases.comparable(found)
  shown = [cases.replay(recorded, one, sight) for one in wanted]
  print('\n'.join(tables.lines(tables.figures(shown, tables.BUDGETS))))


@command
@click.argument('folder', metavar='[DIR]', required=False, type=FOLDER)
def score(folder: pathlib.Path | None) -> None:
  """Scores submissions by AlgoPerf's definition.

  Times to the targets, medians over studies, and the area under the performance
  profile up to four times the fastest, relative to those compared. DIR has
  logs, <submission>/study_<i>/<workload>_<framework>/trial_<j>. Default: the
  self-tuning submissions of 2024, as recorded.
  """
  with errors.ended_by_signals():
    from .. import scores
    from . import recorded as reading
  runs = reading.read_logs(folder) if folder else reading.self_tuning()
  print('\n'.join(scores.score_lines(reading.times(runs))))

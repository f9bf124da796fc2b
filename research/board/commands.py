"""`reset-cycles study` and `reset-cycles scoreboard`: submissions compared."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable

import click

from ...console import errors, flags
from ...console.errors import RunFailed
from ...console.flags import (
  COUNT,
  PATH,
  Command,
  command,
  completes,
  option,
  overwrite,
  switch,
)
from ...mini_algoperf import user_code
from ...views import paths


def _names() -> Iterable[str]:
  """The names of workloads that a study takes, and of their sets."""
  from .workload_sets import SETS, workloads_of

  return *SETS, *workloads_of(tuple(SETS))


@command
@option('out', 'Folder of the logs.', flags.NEW_FOLDER, required=True)
@option(
  'submissions',
  'Rivals, thesis, MUON, SOFT_RESET; NAME=FILE. Default: all known.',
)
@option(
  'workloads',
  'selection, held_out, small ones, or file.py:ClassName.',
  default='selection',
  shell_complete=completes(_names),
)
@option(
  'conditions',
  'Also hot, cold, failed, large, small, inputs; NAME_full keeps lengths; '
  'NAME@2 doubles rates.',
  default='tuned,near,slow',
)
@option('seeds', 'Such as 1-10, or 3,5,8.', default='1-10')
@option('jobs', 'Runs at a time.', COUNT, default=1)
def study(
  out: pathlib.Path,
  submissions: str | None,
  workloads: str,
  conditions: str,
  seeds: str,
  jobs: int,
) -> None:
  """Trains submissions on small workloads, under many conditions.

  The logs go to <out>/<condition>/<submission>/study_<seed>/, as the
  benchmark's do. Runs that are there are not trained again. A run that breaks
  is recorded, and the others go on; the command then fails.
  """
  # Workloads are made: a KeyboardInterrupt could get lost in a callback of jax.
  with errors.ended_by_signals():
    from . import study as studies

    runs = studies.runs_of(
      submissions.split(',') if submissions is not None else (),
      workloads.split(','),
      conditions.split(','),
      flags.read_seeds(seeds),
    )
  out.mkdir(parents=True, exist_ok=True)
  to_train = studies.missing(runs, out)
  print(f'{len(runs)} runs, {len(to_train)} to train.', file=sys.stderr)
  studies.train_all(runs, out, jobs)


@command
@option('logs', 'Folder of a study.', flags.FOLDER, required=True)
@option('entry', 'A submission of it, with joined rules.', default='by_either')
@option('baseline', 'The same with one of the rules.', default='by_progress')
def speakers(logs: pathlib.Path, entry: str, baseline: str) -> None:
  """Counts which of joined rules abandons first, and what becomes of the runs.

  Beside the runs of a baseline that has one of the rules: steps to the target,
  targets lost and won.
  """
  with errors.ended_by_signals():
    from ...views.text_table import table_lines
    from . import speakers as tables
  print('\n'.join(table_lines(tables.rows(logs, entry, baseline))))


@click.command(cls=Command)
@option('workload', "A workload's name, or file.py:ClassName.", required=True)
@switch('full', "Keep the workload's own length.")
@overwrite
def targets(workload: str, full: bool, overwrite: bool) -> None:
  """Sets the targets of a workload of the study: `set-targets --board`."""
  set_board_targets(workload, full, overwrite)


def set_board_targets(workload: str, full: bool, overwrite: bool) -> None:
  """Measures targets, and prints the file that they are written to.

  Raises:
    SetupError: if there are some, that must not be replaced.
    RunFailed: if the training has no target to set.
  """
  with errors.ended_by_signals():
    from . import measure_targets
  with errors.setup_phase(workload=workload):
    measure_targets.check_unset(workload, full, overwrite)
  try:
    with user_code.reported(None, workload, before_first_step=False):
      print(measure_targets.set_targets(workload, full))
  except ValueError as e:
    raise RunFailed(str(e)) from e


@command
@option('logs', 'Folders of studies, commas between.', required=True)
@option('out', 'The page, in Markdown.', PATH, required=True)
@overwrite
@option('reading', 'What the results say, in Markdown.', PATH)
@option('pack', "For an archive of each condition's runs.", flags.NEW_FOLDER)
@switch('ablation', 'Write steps and targets relative to the baseline `bare`.')
def scoreboard(
  logs: str,
  out: pathlib.Path,
  overwrite: bool,
  reading: pathlib.Path | None,
  pack: pathlib.Path | None,
  ablation: bool,
) -> None:
  """Compares submissions by the logs of `reset-cycles study`.

  Writes a page and, without --ablation, its picture, scoreboard.png. A run that
  is in several folders counts as the last one has it.
  """
  with errors.ended_by_signals():
    from . import runs as logs_lib
    from . import scoreboard as pages
    from .ablation import page as ablations
  page = paths.new_file(out, overwrite, '.md')
  if not ablation:
    paths.check_free(page.with_name(pages.PICTURE), overwrite)
  roots = [paths.folder(folder, '--logs=') for folder in logs.split(',')]
  runs = logs_lib.read_all(roots)
  for path in {pack / f'{run.condition}.zip' for run in runs} if pack else ():
    paths.check_free(path, overwrite)
  try:
    text = reading and paths.check_file(reading).read_text(encoding='utf-8')
  except UnicodeDecodeError as e:
    raise ValueError(f'--reading={reading} is not UTF-8: {e}.') from e
  write = ablations.write_page if ablation else pages.write_page
  packed = logs_lib.pack(runs, pack) if pack else []
  write(page, runs, text or '')
  print(*packed, page, sep='\n')

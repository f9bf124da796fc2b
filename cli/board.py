"""`soft-reset study` and `soft-reset scoreboard`: submissions compared."""

from __future__ import annotations

import pathlib
import sys

import click

from . import errors, flags, signals


@click.command(cls=flags.Command, short_help='compare submissions')
@flags.option(
  'out', flags.FILE, metavar='DIR', required=True, help='Folder of the logs.'
)
@flags.option(
  'submissions',
  metavar='A,B',
  help='Names of rivals, thesis, submission (this project, with the settings in '
  'force), or NAME=FILE for your own. Default: all but your own.',
)
@flags.option(
  'workloads',
  metavar='A,B',
  default='digits,molecules,text,translation',
  help='Small workloads, or file.py:ClassName; `soft-reset set-targets --board` '
  'sets the targets of your own.',
)
@flags.option(
  'conditions',
  metavar='A,B',
  default='tuned,near,slow,hot,cold',
  help='tuned, near, slow, hot, cold or budget3; @2 after a name makes learning '
  'rates act as if they were doubled.',
)
@flags.option('seeds', metavar='A-B', default='1-10', help='1-10, or 3,5,8.')
@flags.switch('full', "Keep the workloads' own lengths.")
@flags.switch(
  'published',
  "Use the published learning rates without each submission's factor.",
)
@flags.option(
  'jobs',
  flags.COUNT,
  default=1,
  help='Runs at a time, one core each; with --slurm, the number of tasks.',
)
@flags.option(
  'slurm',
  metavar='PARTITION',
  help='Hand the runs to Slurm as a job array; "local" tries that out with '
  'processes on this machine.',
)
@flags.switch('retry', 'Train again the runs that broke.')
@flags.switch(
  'choose_factors',
  'Instead of --conditions, train under tuned@8, @16, @4 and @2 with published '
  "rates, and write each submission's best factor to factors.json in "
  'studies/board, replacing those there.',
)
def study(
  out: str,
  submissions: str | None,
  workloads: str,
  conditions: str,
  seeds: str,
  full: bool,
  published: bool,
  jobs: int,
  slurm: str | None,
  retry: bool,
  choose_factors: bool,
) -> int:
  """Trains submissions on shortened small workloads, under many conditions.

  The conditions were seen in real logs. The logs go to
  DIR/<condition>/<submission>/study_<seed>/ in the benchmark's layout. Runs that
  are already there are not trained again, so the same command continues a study
  that was interrupted. A run that breaks is recorded, and the others go on; the
  command then fails.
  """
  with signals.ending_at_once():
    from ..studies.board import entries, logs
    from ..studies.board import study as studies
  if not out:
    raise click.UsageError('--out is empty: give a folder.')
  root = pathlib.Path(out).expanduser()
  with errors.setup_phase():
    runs = studies.plan(
      submissions.split(',') if submissions else (),
      workloads.split(','),
      studies.FACTORS if choose_factors else conditions.split(','),
      studies.read_seeds(seeds),
      full,
      published or choose_factors,
    )
    root.mkdir(parents=True, exist_ok=True)
  left = studies.missing(runs, root, retry)
  print(f'{len(runs)} runs, {len(left)} to train.', file=sys.stderr)
  with errors.setup_phase():
    studies.train_all(runs, root, jobs, retry, slurm)
    if choose_factors:
      for name, found in entries.write_factors(logs.read_runs(root)).items():
        print(f'{name}: {found:g}')
  return 0


@click.command(cls=flags.Command, short_help='write the scoreboard of a study')
@flags.option(
  'logs',
  metavar='DIR,DIR',
  required=True,
  help='Folders of studies, or of their archives; a run that is in several '
  'counts as the last one has it.',
)
@flags.option(
  'out', flags.FILE, metavar='FILE.md', required=True, help='The page.'
)
@flags.overwrite
@flags.option(
  'reading',
  flags.FILE,
  help='Markdown file with an interpretation, put at the top of the page.',
)
@flags.option(
  'pack',
  flags.FILE,
  metavar='DIR',
  help='Also write the runs to this folder, one archive per condition.',
)
def scoreboard(
  logs: str, out: str, overwrite: bool, reading: str | None, pack: str | None
) -> int:
  """Compares submissions by the logs of `soft-reset study`, or their archives.

  Writes a page with its picture, scoreboard.png.
  """
  with signals.ending_at_once():
    from ..studies import paths
    from ..studies.board import logs as logs_lib
    from ..studies.board import scoreboard as pages
  with errors.setup_phase():
    page = paths.new_file(out, overwrite, '.md')
    paths.check_free(page.with_name(pages.PICTURE), overwrite)
    roots = [paths.folder('--logs=', folder) for folder in logs.split(',')]
    runs = logs_lib.read_all(roots)
    text = ''
    if reading is not None:
      file = paths.check_file(pathlib.Path(reading).expanduser())
      text = file.read_text(encoding='utf-8')
    pages.write_page(page, runs, text)
    if pack:
      for path in logs_lib.pack(runs, pathlib.Path(pack).expanduser()):
        print(path)
  print(page)
  return 0

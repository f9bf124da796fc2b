"""`python -m reset_cycles.research.lost_runs`: wrong targets and rates."""

from __future__ import annotations

import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import PATH, Command, option
from ...mini_algoperf import files

_LOG = pathlib.Path(__file__).with_name('runs.csv')


@click.command(cls=Command, context_settings=program.CONTEXT)
@option('seeds', 'Such as 1-10, or 3,5.', default='1-10')
@option('log', 'CSV file. Default: runs.csv of the project.', PATH)
def lost_runs(seeds: str, log: pathlib.Path | None) -> None:
  """Trains runs whose target or rate is wrong, and prints a table.

  Each run adds a row to the log; what the log has is not trained again. The
  table, of all its rows, is that of docs/choosing.md.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import study

    numbers = flags.read_seeds(seeds)
    file = files.check_file(log or _LOG)
    run_logs.read(file, study.FIELDS)
  study.train(numbers, file)
  print(study.table(run_logs.read(file, study.FIELDS), study.rises_of))


if __name__ == '__main__':
  sys.exit(program.run(lost_runs, f'python -m {__package__}'))

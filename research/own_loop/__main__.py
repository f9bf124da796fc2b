"""`python -m reset_cycles.research.own_loop`: what to take in a loop."""

from __future__ import annotations

import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import PATH, Command, option
from ...mini_algoperf import files

_LOG = pathlib.Path(__file__).with_name('runs.csv')


@click.command(cls=Command, context_settings=program.CONTEXT)
@option('seeds', 'Such as 0-9, or 3,5.', default='0-9')
@option('loops', 'Such as mlp_loss,cnn_loss. Default: all six.')
@option('log', 'CSV file. Default: runs.csv of the project.', PATH)
def own_loop(seeds: str, loops: str | None, log: pathlib.Path | None) -> None:
  """Trains six small loops with four optimizers, and prints a table.

  Each run adds a row to the log; what the log has is not trained again. The
  table, of all its rows, is that of OWN_LOOP.md.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import study

    names = flags.read_names('--loops', loops, study.LOOPS)
    numbers = flags.read_seeds(seeds)
    file = files.check_file(log or _LOG)
    run_logs.read(file, study.FIELDS)
  study.train(names, numbers, file)
  print(study.table(run_logs.read(file, study.FIELDS)))


if __name__ == '__main__':
  sys.exit(program.run(own_loop, f'python -m {__package__}'))

"""`python -m reset_cycles.research.own_loop`: what to take in a loop."""

from __future__ import annotations

import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import COUNT, FILE, PATH, Command, option
from ...mini_algoperf import files


@click.group(context_settings=program.CONTEXT)
def own_loop() -> None:
  """What to take in a loop of one's own."""


@own_loop.command(cls=Command)
@option('seeds', 'Such as 0-9, or 3,5.', default='0-9')
@option('loops', 'Such as mlp_loss,cnn_loss. Default: all six.')
@option('log', 'CSV file. Default: runs.csv of the project.', PATH)
def resets(seeds: str, loops: str | None, log: pathlib.Path | None) -> None:
  """Trains six small loops with AdamW in cycles, with and without resets.

  Each run adds a row to the log; what the log has is not trained again. Prints
  the table of all its rows.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import study

    names = flags.read_names('--loops', loops, study.LOOPS)
    numbers = flags.read_seeds(seeds)
    file = files.check_file(log or study.LOG)
    run_logs.read(file, study.FIELDS)
  study.train(names, numbers, file)
  print(study.table(run_logs.read(file, study.FIELDS)))


@own_loop.command(cls=Command)
@option('seeds', 'Such as 0-9, or 3,5.', default='0-9')
@option('networks', 'Such as mlp,cifar. Default: all six.')
@option('arms', 'Such as ours,adamw. Default: all.')
@option('real_data', 'Folder of CIFAR-10, Multi30k, Tox21; OWN_LOOP.md.', PATH)
@option('log', 'CSV file. Default: without_rate.csv of the project.', PATH)
def train(
  seeds: str,
  networks: str | None,
  arms: str | None,
  real_data: pathlib.Path | None,
  log: pathlib.Path | None,
) -> None:
  """Trains the default without a rate, and others at five peaks.

  Each run adds a row to the log; what the log has is not trained again.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import without_rate
    from .networks import LARGER, NETWORKS

    names = flags.read_names('--networks', networks, NETWORKS)
    kinds = flags.read_names('--arms', arms, without_rate.ARMS)
    numbers = flags.read_seeds(seeds)
    file = files.check_file(log or without_rate.LOG)
    run_logs.read(file, without_rate.FIELDS)
    if real_data is None and set(names) & set(LARGER):
      raise ValueError(
        f'--real_data is missing; {", ".join(LARGER)} need a folder of data.'
      )
    runs = without_rate.runs_of(names, kinds, numbers)
  without_rate.train(runs, real_data or pathlib.Path(), file)


@own_loop.command(cls=Command)
@option('log', 'CSV file. Default: without_rate.csv of the project.', FILE)
def tables(log: pathlib.Path | None) -> None:
  """Prints the tables of the runs without a rate, and of the times."""
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import rate_tables, step_times, without_rate

    rows = run_logs.read(log or without_rate.LOG, without_rate.FIELDS)
    timed = run_logs.read(step_times.LOG, step_times.FIELDS)
  print(f'{rate_tables.table(rows)}\n\n{rate_tables.summary(rows)}\n')
  print(f'{step_times.grid_table(timed)}\n\n{step_times.network_table(timed)}')


@own_loop.command(cls=Command)
@option('rounds', 'Steps of each arm, in turn.', COUNT, default=60)
@option('networks', 'Such as mlp,cifar. Default: all that need no data.')
@option('real_data', 'Folder of CIFAR-10, Multi30k, Tox21; OWN_LOOP.md.', PATH)
@option('log', 'CSV file. Default: step_times.csv of the project.', PATH)
def times(
  rounds: int,
  networks: str | None,
  real_data: pathlib.Path | None,
  log: pathlib.Path | None,
) -> None:
  """Measures what a step costs beside AdamW's, by batch and width, on a CPU.

  Each network adds its rows to the log; what the log has is not timed again.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from .. import run_logs
    from . import step_times
    from .networks import LARGER

    known = [*step_times.GRID, *step_times.NETWORKS]
    names = flags.read_names('--networks', networks, known)
    if networks is None:
      names = [*step_times.GRID, 'cnn']
    if real_data is None and set(names) & set(LARGER):
      raise ValueError('--real_data is missing; the networks need its folder.')
    file = files.check_file(log or step_times.LOG)
    run_logs.read(file, step_times.FIELDS)
  step_times.measure(names, rounds, real_data or pathlib.Path(), file)


if __name__ == '__main__':
  sys.exit(program.run(own_loop, f'python -m {__package__}'))

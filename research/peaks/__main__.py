"""`python -m reset_cycles.research.peaks`: tasks, lengths and shares."""

from __future__ import annotations

import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import FILE, PATH, Command, option
from ...mini_algoperf import files


@click.group(context_settings=program.CONTEXT)
def peaks() -> None:
  """Which peak suits the noise of the data and the length of the run."""


@peaks.command(cls=Command)
@option('steps', 'Lengths, such as 300,1500. Default: all five.')
@option('tasks', 'Such as images,labels_of_8k. Default: the eight of the grid.')
@option('arms', 'Such as law,chain. Default: share,law,adamw.')
@option('numbers', 'Shares or peaks, such as 0.01,0.16. Default: all.')
@option('seeds', 'Such as 0-9, or 3,5.', default='0')
@option('real_data', 'Folder of cifar10.zip and Multi30k; see PEAKS.md.', PATH)
@option('log', 'CSV file. Default: runs.csv of the project.', PATH)
def train(
  steps: str | None,
  tasks: str | None,
  arms: str | None,
  numbers: str | None,
  seeds: str,
  real_data: pathlib.Path | None,
  log: pathlib.Path | None,
) -> None:
  """Trains what the log lacks, a row for each run."""
  with errors.ended_by_signals(), errors.setup_phase():
    from . import study
    from .tasks import FEW, REAL, TASKS

    known_tasks = {**TASKS, **FEW}
    names = flags.read_names('--tasks', tasks or ','.join(TASKS), known_tasks)
    kinds = flags.read_names('--arms', arms or 'share,law,adamw', study.ARMS)
    lengths = flags.read_names('--steps', steps, study.LENGTHS)
    known = {str(n): n for arm in kinds for n in study.ARMS[arm].numbers}
    chosen = flags.read_names('--numbers', numbers, known)
    each_seed = flags.read_seeds(seeds)
    file = files.check_file(log or study.LOG)
    if real_data is None and set(names) & set(REAL):
      raise ValueError(
        f'--real_data is missing; {", ".join(REAL)} need a folder of data.'
      )
    runs = [
      study.Run(name, study.LENGTHS[length], kind, number, seed)
      for length in lengths
      for name in names
      for kind in kinds
      for number in study.ARMS[kind].numbers
      if str(number) in chosen
      for seed in each_seed
    ]
  study.train(runs, real_data or pathlib.Path(), file)


@peaks.command(cls=Command)
@option('log', 'CSV file. Default: runs.csv of the project.', FILE)
def table(log: pathlib.Path | None) -> None:
  """Prints the tables of PEAKS.md."""
  with errors.ended_by_signals(), errors.setup_phase():
    from . import study, tables

    print(tables.table(log or study.LOG))
    print(tables.seeds(log or study.LOG))
    print(tables.over_seeds(log or study.LOG))
    beside = study.LOG.with_name
    print(tables.few(beside('few.csv'), log or study.LOG))
    print(tables.tried_on_few(beside('few_tried.csv')))
    print(tables.tried(beside('tried.csv'), log or study.LOG))


if __name__ == '__main__':
  sys.exit(program.run(peaks, f'python -m {__package__}'))

"""`python -m reset_cycles.research.growing`: data that grow."""

from __future__ import annotations

import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import FILE, PATH, Command, option, overwrite
from ...mini_algoperf import files
from ...views import paths


@click.group(context_settings=program.CONTEXT)
def growing() -> None:
  """Training on old data, more data, and fourteen ways to go on."""


@growing.command(cls=Command)
@option('out', 'CSV file for the runs.', PATH, required=True)
@option('tasks', 'Such as images,molecules. Default: all four.')
def train(out: pathlib.Path, tasks: str | None) -> None:
  """Trains what the log lacks, all seeds of a task at a time."""
  with errors.ended_by_signals(), errors.setup_phase():
    from . import study

    known = [*study.SELECTION, *study.HELD_OUT]
    names = flags.read_names('--tasks', tasks, known)
    study.read(files.check_file(out))
  study.train(names, out)


@growing.command(cls=Command)
@option('log', 'CSV file of runs. Default: log.csv of the project.', FILE)
@option('picture', 'PNG of how runs go on.', PATH)
@overwrite
def tables(
  log: pathlib.Path | None, picture: pathlib.Path | None, overwrite: bool
) -> None:
  """Prints the tables of its two pages, and the tau that is chosen."""
  with errors.ended_by_signals(), errors.setup_phase():
    from . import tables as pages

    image = picture and paths.new_file(picture, overwrite, '.png')
    print(pages.write(log or pages.LOG, image))


if __name__ == '__main__':
  sys.exit(program.run(growing, f'python -m {__package__}'))

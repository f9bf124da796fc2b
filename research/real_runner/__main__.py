"""`python -m reset_cycles.research.real_runner`: main's own runner."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import click

from ...console import errors, flags, program
from ...console.flags import (
  FOLDER,
  NEW_FOLDER,
  PATH,
  Command,
  option,
  switch,
)
from ...core.checks import check_choice
from ...views import paths
from . import page
from . import run as running
from .cases import CASES, THESIS, data_of

_ENTRIES = 'Folder that has a folder for each entry.'


@click.group(context_settings=program.CONTEXT)
def real_runner() -> None:
  """Entries in the benchmark's own runner, on real and generated data."""


@real_runner.command(cls=Command)
@click.argument('entries', type=FOLDER)
def export(entries: pathlib.Path) -> None:
  """Exports this project's entries into a folder of entries."""
  with errors.ended_by_signals():
    from . import own
  own.export(entries)


def _data_folders(function: Callable[..., Any]) -> Callable[..., Any]:
  """Adds a flag for the folder of each data set."""
  for name in dict.fromkeys(map(data_of, CASES)):
    default = pathlib.Path(CASES[name].folder)
    add = option(f'{name}_folder', 'Its data.', PATH, default=default)
    function = add(function)
  return function


@real_runner.command(cls=Command)
@option('benchmark', "The benchmark's checkout.", FOLDER)
@option('entries', _ENTRIES, FOLDER)
@option('names', 'Entries. Default: none; the tables are written.')
@option('data', 'Such as fashion,molecules.', default='fashion,digits')
@option('seeds', 'Such as 1-10, or 3,5,8.', default='1-5')
@option(
  'clock',
  'counted: a step takes as long as any.',
  ['counted', 'real'],
  default='counted',
)
@option('target', "Of validation. Default: the data set's.", float)
@switch('set_up', 'Only time set-up and first step.')
@option('out', "For the benchmark's logs.", NEW_FOLDER, default='real_runs')
@_data_folders
def run(
  benchmark: pathlib.Path | None,
  entries: pathlib.Path | None,
  names: str | None,
  data: str,
  seeds: str,
  clock: str,
  target: float | None,
  set_up: bool,
  out: pathlib.Path,
  **folders: pathlib.Path,
) -> None:
  """Runs entries beside each other, and writes the tables of README.md.

  What evaluations.csv has is not run again.
  """
  if names is None:
    page.write_tables()
    return
  if benchmark is None or entries is None:
    raise click.UsageError('--names needs --benchmark and --entries.')
  with errors.setup_phase():
    for name in (wanted := names.split(',')):
      paths.folder(entries / name, '--names: ')
    cases = flags.read_names('--data', data, CASES)
    if set(cases) & set(THESIS):
      from . import own

      runs = [name for name in own.OWN if name.startswith('thesis_')]
      for name in wanted:
        check_choice('--names', name, runs)
    for name in map(data_of, cases):
      if CASES[name].folder:
        paths.folder(folders[f'{name}_folder'], f'--{name}_folder: ')
    study = running.Study(
      benchmark=benchmark,
      entries=entries,
      out=out.resolve(),
      data=cases,
      folders={n.removesuffix('_folder'): folders[n] for n in folders},
      seeds=flags.read_seeds(seeds),
      clock=clock,
      target=target,
      set_up=set_up,
    )
  running.train(study, wanted)
  page.write_tables()


@real_runner.command(cls=Command)
@click.argument('benchmark', type=FOLDER)
@click.argument('workloads', nargs=-1)
def peaks(benchmark: pathlib.Path, workloads: tuple[str, ...]) -> None:
  """Prints the share of its weights' size that each published peak is.

  BENCHMARK is a checkout of main; of its WORKLOADS by default all.
  """
  with errors.ended_by_signals(), errors.setup_phase():
    from . import peaks as shares

    known = shares.known_workloads(benchmark)
    for name in workloads:
      check_choice('WORKLOADS', name, known.WORKLOADS)
  for row in shares.rows(known, workloads or shares.WORKLOADS):
    print(row, flush=True)


if __name__ == '__main__':
  sys.exit(program.run(real_runner, f'python -m {__package__}'))

"""`reset-cycles experiments`, `figures` and `results`: the thesis' runs."""

from __future__ import annotations

import contextlib
import pathlib
import runpy
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...console import errors, flags
from ...console.flags import (
  PATH,
  command,
  completes,
  option,
  overwrite,
  switch,
)
from ...views import paths

if TYPE_CHECKING:
  from .folders import Job, RunLog

_PLACES = {'logs': None, 'runs': pathlib.Path('experiment_runs/thesis')}


def _names() -> Iterable[str]:
  """The names of the figures."""
  from .registry import FIGURES

  return FIGURES


def _log_flags(function: Callable[..., Any]) -> Callable[..., Any]:
  """Adds the flags: where logs are, and how missing ones are made."""
  kept = 'Folder for runs that are trained; those in it are used, too.'
  more = "Folders of further logs, also the benchmark's; commas between them."
  for add in (
    option('jobs', 'Runs at a time.', flags.WholeNumber(1, 1000), default=2),
    option('runs', kept, flags.NEW_FOLDER, default=_PLACES['runs']),
    switch('shipped', "Use the project's logs as well.", default=True),
    option('logs', more),
  ):
    function = add(function)
  return function


@command
@click.argument('figure', required=False, shell_complete=completes(_names))
def experiments(figure: str | None) -> None:
  """Lists the thesis' figures, or explains one such as fig3.8a.

  fig3.8 stands for all parts of that figure: fig3.8a, fig3.8b and fig3.8c.

  Its runs' settings, and the commands that show their cycles and train them
  here and on the benchmark.
  """
  with errors.ended_by_signals():
    from . import figure_text as texts
  print(texts.figure_text(figure) if figure is not None else texts.list_text())


@command
@option(
  'only',
  'Figures such as fig3.8a,fig3.11; fig3.8 is a, b and c. Default: all.',
  shell_complete=completes(_names),
)
@option('seeds', 'Train seeds 1 to N.', flags.WholeNumber(1, 10_000), default=1)
@option('out', 'For pictures.', flags.NEW_FOLDER, default='experiment_figures')
@overwrite
@_log_flags
def figures(
  only: str | None,
  seeds: int,
  out: pathlib.Path,
  overwrite: bool,
  **places: Any,
) -> None:
  """Draws the thesis' figures, <figure>_<workload>.png each.

  Runs without logs are trained first. The benchmark's logs get pictures of
  their own. Median and quartiles stand for several seeds.
  """
  with errors.ended_by_signals():
    from . import figures as drawing
    from . import registry as thesis
  names = only.split(',') if only is not None else thesis.FIGURES
  chosen = {
    own: figure
    for name in names
    for own, figure in thesis.find_figures(name).items()
  }
  out.mkdir(parents=True, exist_ok=True)
  jobs = drawing.wanted_jobs(chosen.values(), range(1, seeds + 1))
  # Checked before hours of training; the benchmark's logs have pictures, too.
  with _complete_logs((), **places) as found:
    there = [*jobs, *(log.job for log in found)]
  for path in (pictures := drawing.pictures(chosen, there, out)):
    paths.check_free(path, overwrite)
  with _complete_logs(jobs, **places) as found:
    for path in drawing.draw_all(pictures, found):
      print(path)


@command
@option('seeds', 'Seeds 1 to N.', flags.WholeNumber(10, 10_000), default=10)
@option('out', 'Markdown file to write.', PATH, default='RESULTS.md')
@overwrite
@_log_flags
def results(
  seeds: int, out: pathlib.Path, overwrite: bool, **places: Any
) -> None:
  """Measures the thesis' claims, and writes the findings.

  On the three small workloads; runs that have no logs are trained first.
  """
  with errors.ended_by_signals():
    from ...mini_algoperf import files
    from . import results as findings
    from .registry import REAL_DATA
  wanted = set(jobs := findings.wanted_jobs(range(1, seeds + 1)))
  page = paths.new_file(out, overwrite, '.md')
  words = ['reset-cycles', 'results', f'--seeds={seeds}', f'--out={out}']
  words += [f'--{n}={places[n]}' for n, v in _PLACES.items() if places[n] != v]
  words += [] if places['shipped'] else ['--noshipped']
  own = len(words) == 4 and seeds <= 10  # ten seeds come with the project
  with _complete_logs(jobs, **places) as found:
    used = [log for log in found if log.job in wanted]
    shown = [
      log
      for log in found
      if log.job.seed in range(seeds + 1) or log.job.workload in REAL_DATA
    ]
    text = findings.measure(shlex.join(words), own, used, shown)
    files.write_whole(page, text)
  print(page)


def _complete_logs(
  wanted: Sequence[Job],
  logs: str | None,
  shipped: bool,
  runs: pathlib.Path,
  jobs: int,
) -> contextlib.AbstractContextManager[list[RunLog]]:
  """All logs that the flags name; missing runs are trained first."""
  from .folders import check_has_run, complete_logs
  from .registry import LOGS

  names = logs.split(',') if logs is not None else []
  given = [paths.folder(name, '--logs=') for name in names]
  for root in given:
    check_has_run(root, '--logs=')
  own = [LOGS] if shipped and LOGS.is_dir() else []
  # An earlier folder takes precedence.
  return complete_logs(wanted, [*given, *own], runs, jobs, _run)


def _run(words: Sequence[str]) -> int:
  """The exit status of `reset-cycles run`, the program above, in a worker."""
  sys.argv = ['reset-cycles', 'run', *words]
  package = __name__.partition('.')[0]
  try:
    runpy.run_module(f'{package}.cli', run_name='__main__', alter_sys=True)
  except SystemExit as e:
    assert isinstance(e.code, int)
    return e.code
  raise AssertionError('the program ends with a status')

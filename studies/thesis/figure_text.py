"""The thesis' figures in words: their runs, cycles and commands."""

from __future__ import annotations

import os
import pathlib
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ...mini_algoperf import workloads
from ..plans import RunPlan, planned_cycles
from ..preview.plan import cycle_rows
from ..text_table import table_lines
from . import registry
from .registry import RUNS, Counterpart

_WIDTH = 80


def list_text() -> str:
  """The list of all figures, one line each."""
  rows = [
    (name, figure.workload.name, f'{figure.budget_factor:g}x', figure.title)
    for name, figure in registry.FIGURES.items()
  ]
  lines = table_lines([('figure', 'workload', 'budget', 'shows'), *rows])
  more = (
    '',
    'The budget is in step_hints. `soft-reset experiments fig3.8a` explains '
    'a figure.',
  )
  return '\n'.join([*lines, *more])


def figure_text(name: str) -> str:
  """A figure's runs: settings, cycles, and the commands that train them.

  Args:
    name: a key of `registry.FIGURES`.

  Raises:
    ValueError: there is no such figure.
  """
  figure = registry.find_figure(name)
  lines = [
    f'{name}: {figure.title}',
    '',
    *textwrap.wrap(figure.caption, _WIDTH),
    '',
    f'Shows: {figure.shows.replace("_", " ")} over {figure.x_axis}.',
    f'Workload: {figure.workload.name}, here {figure.workload.stand_in}.',
    f'Budget: {figure.budget_factor:g} times step_hint.',
  ]
  cycles = None
  for run_name in figure.runs:
    before = cycles
    cycles = list(_cycle_lines(run_name, figure.workload))
    lines += ['', run_name, '-' * len(run_name)]
    lines += registry.settings_lines(run_name)
    lines += ['', 'Cycles: as above.'] if cycles == before else cycles
    lines += ['', *_commands(run_name, figure.workload)]
  return '\n'.join(lines)


def _cycle_lines(run: str, workload: Counterpart) -> Iterator[str]:
  for where, step_hint in _step_hints(workload).items():
    yield ''
    yield f'Cycles with the step_hint of {where}, {step_hint:,}:'
    plan = RunPlan(step_hint, RUNS[run])
    yield from table_lines(cycle_rows(planned_cycles(plan)))


def _step_hints(workload: Counterpart) -> Mapping[str, int]:
  stand_in = workloads.WORKLOADS[workload.stand_in]
  return {
    f'{workload.name} in 2024': workload.step_hint_2024,
    f'{workload.name} now': workload.step_hint,
    workload.stand_in: stand_in.step_hint,
  }


def _commands(name: str, workload: Counterpart) -> Iterator[str]:
  yield 'On the benchmark, which stops at the targets or when time is up:'
  for words in _benchmark_commands(name, workload):
    yield from _command_lines(words)
  yield 'Here:'
  yield from _command_lines(_own_command(name, workload))


def _benchmark_commands(name: str, workload: Counterpart) -> list[list[str]]:
  folder = f'submissions/{name}'
  return [
    ['soft-reset export', f'--settings={name}', f'--out={folder}'],
    [
      'python3 submission_runner.py',
      '--framework=jax',
      f'--workload={workload.name}',
      f'--submission_path={folder}/self_tuning/{name}/submission.py',
      '--tuning_ruleset=self',
      '--data_dir=$DATA',
      '--experiment_dir=$EXPERIMENTS',
      f'--experiment_name={name}',
    ],
  ]


def _own_command(name: str, workload: Counterpart) -> list[str]:
  return [
    f'EXPERIMENT={name}',
    'soft-reset run',
    f'--workload={workload.stand_in}',
    f'--submission_path={shlex.quote(_shown_path(registry.SUBMISSION))}',
    f'--experiment_name={name}',
    '--nostop_at_targets',
  ]


def _shown_path(path: pathlib.Path) -> str:
  """Relative where the file is below the current folder."""
  path = path.resolve()  # the current folder is without links, too
  relative = os.path.relpath(path)
  return str(path) if relative.startswith(os.pardir) else relative


def _command_lines(words: Sequence[str]) -> list[str]:
  """A shell command over several lines, none too long unless a word is."""
  lines = ['  ' + words[0]]
  for word in words[1:]:
    if len(lines[-1]) + len(word) + 3 > _WIDTH:
      lines[-1] += ' \\'
      lines.append('    ' + word)
    else:
      lines[-1] += f' {word}'
  return lines

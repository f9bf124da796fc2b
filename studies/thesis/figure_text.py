"""The thesis' figures in words: their runs, cycles and commands."""

from __future__ import annotations

import os
import pathlib
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ...control.switching import SWITCHING_RULES
from ...experiments import thesis
from ...mini_algoperf import workloads
from ...schedule_params import ScheduleParams
from ..preview.cycle_table import cycle_rows
from ..text_table import table_lines

_WIDTH = 80
# Where docs/benchmark.md has a reader copy the files to, below its root.
_BENCHMARK_FOLDER = 'submissions/mine/self_tuning/soft_reset/experiments'


def list_text() -> str:
  """The list of all figures, one line each."""
  rows = [
    (name, figure.workload.name, f'{figure.budget_factor:g}x', figure.title)
    for name, figure in thesis.FIGURES.items()
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
    name: a key of `thesis.FIGURES`.

  Raises:
    ValueError: there is no such figure.
  """
  figure = thesis.find_figure(name)
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
    params, before = thesis.RUNS[run_name], cycles
    cycles = list(_cycle_lines(params, figure.workload))
    lines += ['', run_name, '-' * len(run_name), *_settings_lines(params)]
    lines += ['', 'Cycles: as above.'] if cycles == before else cycles
    lines += ['', *_commands(run_name, figure.workload)]
  return '\n'.join(lines)


def _settings_lines(params: ScheduleParams) -> Iterator[str]:
  soft = f', alpha {params.alpha:g}' if params.reset_mode == 'soft' else ''
  yield f'Resets: {params.reset_mode}{soft}.'
  state = 'on' if params.early_switching else 'off, S(t) is logged'
  rule = SWITCHING_RULES.make(params.switching)
  yield (
    f'Early switching: {state}; lambda {rule.lam:g}, '
    f'epsilon {rule.eps1:g}, {rule.eps2:g}, k {rule.k}, m {rule.m}.'
  )
  hparams = params.hparams
  yield (
    f'AdamW: beta {1 - hparams.one_minus_beta1:.4g} and {hparams.beta2:.4g}, '
    f'weight decay {hparams.weight_decay:.4g}, '
    f'dropout {hparams.dropout_rate:g}.'
  )


def _cycle_lines(
  params: ScheduleParams, workload: thesis.Counterpart
) -> Iterator[str]:
  for where, step_hint in _step_hints(workload).items():
    yield ''
    yield f'Cycles with the step_hint of {where}, {step_hint:,}:'
    yield from table_lines(cycle_rows(step_hint, params))


def _step_hints(workload: thesis.Counterpart) -> Mapping[str, int]:
  stand_in = workloads.WORKLOADS[workload.stand_in]
  return {
    f'{workload.name} in 2024': workload.step_hint_2024,
    f'{workload.name} now': workload.step_hint,
    workload.stand_in: stand_in.step_hint,
  }


def _commands(name: str, workload: thesis.Counterpart) -> Iterator[str]:
  yield 'On the benchmark, which stops at the targets or when time is up:'
  yield from _command_lines(_benchmark_command(name, workload))
  yield 'Here:'
  yield from _command_lines(_own_command(name, workload))


def _benchmark_command(name: str, workload: thesis.Counterpart) -> list[str]:
  return [
    'python3 submission_runner.py',
    '--framework=jax',
    f'--workload={workload.name}',
    f'--submission_path={_BENCHMARK_FOLDER}/{name}.py',
    '--tuning_ruleset=self',
    '--data_dir=$DATA',
    '--experiment_dir=$EXPERIMENTS',
    f'--experiment_name={name}',
  ]


def _own_command(name: str, workload: thesis.Counterpart) -> list[str]:
  path = shlex.quote(_shown_path(thesis.run_path(name)))
  return [
    'soft-reset run',
    f'--workload={workload.stand_in}',
    f'--submission_path={path}',
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

"""The thesis' figures in words: their runs and commands."""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Sequence

from ..text_table import table_lines
from . import registry
from .registry import Counterpart

_WIDTH = 80


def list_text() -> str:
  """The list of all figures, one line each."""
  rows = [
    (name, figure.workload.name, f'{figure.budget_factor:g}x', figure.title)
    for name, figure in registry.FIGURES.items()
  ]
  lines = [
    *table_lines([('figure', 'workload', 'budget', 'shows'), *rows]),
    '',
    'The budget is in step_hints. `soft-reset experiments fig3.8a` explains '
    'a figure.',
  ]
  return '\n'.join(lines)


def figure_text(name: str) -> str:
  """A figure's runs: settings, and the commands that show and train them.

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
  for run in figure.runs:
    lines += ['', run, '-' * len(run), *registry.settings_lines(run)]
    lines += _commands(run, figure.workload)
  return '\n'.join(lines)


def _commands(name: str, workload: Counterpart) -> list[str]:
  folder = f'submissions/{name}'
  # Relative where the file is below the current folder, which is without links.
  submission = registry.SUBMISSION.resolve()
  relative = os.path.relpath(submission)
  path = str(submission) if relative.startswith(os.pardir) else relative
  return [
    f'Its cycles with the step_hint of {workload.name} in 2024:',
    *_command(
      'soft-reset schedule',
      f'--settings={name}',
      f'--step_hint={workload.step_hint}',
    ),
    'On the benchmark, which stops at the targets or when time is up:',
    *_command('soft-reset export', f'--settings={name}', f'--out={folder}'),
    *_command(
      'python3 submission_runner.py',
      '--framework=jax',
      f'--workload={workload.name}',
      f'--submission_path={folder}/self_tuning/{name}/submission.py',
      '--tuning_ruleset=self',
      '--data_dir=$DATA',
      '--experiment_dir=$EXPERIMENTS',
      f'--experiment_name={name}',
    ),
    'Here:',
    *_command(
      f'EXPERIMENT={name}',
      'soft-reset run',
      f'--workload={workload.stand_in}',
      f'--submission_path={shlex.quote(path)}',
      f'--experiment_name={name}',
      '--nostop_at_targets',
    ),
  ]


def _command(*words: str) -> Sequence[str]:
  """A shell command over several lines, none too long unless a word is."""
  lines = ['  ' + words[0]]
  for word in words[1:]:
    if len(lines[-1]) + len(word) + 3 > _WIDTH:
      lines[-1] += ' \\'
      lines.append('    ' + word)
    else:
      lines[-1] += f' {word}'
  return lines

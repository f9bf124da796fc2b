"""The thesis' figures in words: their runs and commands."""

from __future__ import annotations

import os
import pathlib
import shlex

from ...experiments import thesis
from ...experiments.settings import RUNS
from ..pages import render
from ..plans import shown
from ..text_table import table_lines


def list_text() -> str:
  """The list of all figures, one line each."""
  rows = [
    (name, figure.workload.name, f'{figure.budget_factor:g}x', figure.title)
    for name, figure in thesis.FIGURES.items()
  ]
  lines = [
    *table_lines([('figure', 'workload', 'budget', 'shows'), *rows]),
    '',
    'The budget is in step_hints. `reset-cycles experiments fig3.8a` explains '
    'a figure.',
  ]
  return '\n'.join(lines)


def figure_text(name: str) -> str:
  """A figure's runs: settings, and the commands that show and train them."""
  # Relative where the file is below the current folder, which is without links.
  submission = str(thesis.SUBMISSION.resolve())
  relative = os.path.relpath(submission)
  return render(
    pathlib.Path(__file__).with_suffix('.txt'),
    name=name,
    figure=thesis.find_figure(name),
    runs=RUNS,
    shown=shown,
    submission=shlex.quote(
      submission if relative.startswith(os.pardir) else relative
    ),
  ).rstrip()

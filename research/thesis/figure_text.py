"""The thesis' figures in words: their runs and commands."""

from __future__ import annotations

import os
import pathlib
import shlex

from ...views.pages import render
from ...views.planned_runs import setting_text
from ...views.text_table import table_lines
from . import registry as thesis
from .premises import PREMISES
from .settings import RUNS


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
    '',
    'In the thesis figure A.1 has the plan of 3.3a on other hardware: A.1a is '
    '3.3a here, and A.1b is 3.3b.',
  ]
  return '\n'.join(lines)


def figure_text(name: str) -> str:
  """A figure's runs, or those of all its parts: settings, and commands.

  The commands show the runs' schedules and train them.
  """
  # Relative where the file is below the current folder, which is without links.
  submission = str(thesis.SUBMISSION.resolve())
  relative = os.path.relpath(submission)
  is_below = not relative.startswith(os.pardir)
  texts = [
    render(
      pathlib.Path(__file__).with_suffix('.txt'),
      name=own,
      figure=figure,
      premise=PREMISES[own],
      runs=RUNS,
      setting_text=setting_text,
      submission=shlex.quote(relative if is_below else submission),
    ).rstrip()
    for own, figure in thesis.find_figures(name).items()
  ]
  return '\n\n\n'.join(texts)

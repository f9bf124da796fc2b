"""`soft-reset experiments`: the thesis' figures and how to reproduce them."""

from __future__ import annotations

import argparse

from . import arguments, errors, signals

SUMMARY = "the thesis' figures and how to reproduce them"
USAGE = '[FIGURE]'
DESCRIPTION = (
  'Lists the figures of the thesis, or explains one, such as fig3.8a: its '
  "runs' settings and cycles, and the commands that train them here and on the "
  'benchmark.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the argument: a figure; without it, all are listed."""
  parser.add_argument(
    'figure', metavar='FIGURE', nargs='?', help='A figure from the list.'
  )


def run(options: argparse.Namespace) -> int:
  """Prints the list or the figure; returns the exit status.

  Raises:
    SetupError: if there is no such figure.
  """
  with signals.ending_at_once():
    from ..studies.thesis import figure_text
  if options.figure is None:
    print(figure_text.list_text())
    return 0
  with errors.setup_phase():
    text = figure_text.figure_text(options.figure)
  print(text)
  return 0

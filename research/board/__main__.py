"""`python -m reset_cycles.research.board`: submissions compared."""

from __future__ import annotations

import sys

import click

from ...console import program
from . import commands


@click.group(
  commands=[
    *(commands.study, commands.targets, commands.scoreboard),
    commands.speakers,
  ],
  context_settings=program.CONTEXT,
)
def board() -> None:
  """Many submissions on many small workloads under many conditions."""


if __name__ == '__main__':
  sys.exit(program.run(board, f'python -m {__package__}'))

"""`python -m reset_cycles.research.replay`: rules on recorded runs."""

from __future__ import annotations

import sys

import click

from ...console import program
from . import commands


@click.group(
  commands=[commands.replay, commands.score],
  context_settings=program.CONTEXT,
)
def replay() -> None:
  """Switching rules and scores, on runs of the benchmark that were recorded."""


if __name__ == '__main__':
  sys.exit(program.run(replay, f'python -m {__package__}'))

"""`python -m reset_cycles.research.thesis`: its figures and claims."""

from __future__ import annotations

import sys

import click

from ...console import program
from . import commands


@click.group(
  commands=[commands.experiments, commands.figures, commands.results],
  context_settings=program.CONTEXT,
)
def thesis() -> None:
  """The thesis' runs, its figures drawn anew, and its claims measured."""


if __name__ == '__main__':
  sys.exit(program.run(thesis, f'python -m {__package__}'))

"""The console script `reset-cycles`, and its commands."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .. import __version__
from ..console import program
from ..research.board import commands as board
from ..research.replay import commands as replay
from ..research.thesis import commands as thesis
from . import looks, run, settings

_NAME = 'reset-cycles'


@click.group(
  _NAME,
  commands=[
    *(run.run, settings.schedule, settings.export, run.set_targets),
    *(thesis.experiments, thesis.figures, thesis.results),
    *(replay.replay, replay.score, looks.report, looks.plot),
    *(board.study, board.scoreboard),
  ],
  context_settings=program.CONTEXT,
  epilog='`reset-cycles COMMAND --help` explains a command. A first run: '
  'reset-cycles run --workload=digits. Completion in bash: '
  f'eval "$({program.completion(_NAME)}=bash_source {_NAME})"; also '
  'zsh_source, fish_source.',
)
@click.version_option(__version__, prog_name=_NAME)
def cli() -> None:
  """Trains small AlgoPerf-like workloads with soft resets between learning rate
  cycles, and exports the submission."""


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a command; see `program.run`."""
  return program.run(cli, _NAME, arguments)

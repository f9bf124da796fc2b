"""`python -m reset_cycles.research.costs`: beyond bare optax."""

from __future__ import annotations

import os
import pathlib
import sys

import click

from ...console import errors, flags, program
from ...console.flags import COUNT, PATH, Command, option, switch


@click.command(cls=Command, context_settings=program.CONTEXT)
@option('models', 'Of models.py, or stand-ins.', default='digits,molecules')
@option('pairs', 'Steps that take turns in a round.', COUNT, default=100)
@option('rounds', 'Each sets up all anew.', COUNT, default=5)
@option('out', 'JSON file of the figures.', PATH)
@switch('muon', 'Measure MUON, too.')
@option('memory', 'Models of models.py whose memory is planned instead.')
def costs(
  models: str,
  pairs: int,
  rounds: int,
  out: pathlib.Path | None,
  muon: bool,
  memory: str | None,
) -> None:
  """Measures what the submission costs: step, evaluation, reset, set-up.

  --memory prints XLA's own plan of a step and of a reset on each of eight
  devices; programs are compiled for that, and nothing is run.
  """
  if memory is not None:  # before jax asks for its devices
    os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8'
  with errors.ended_by_signals(), errors.setup_phase():
    from . import measure
    from .models import MODELS

    if memory is not None:
      planned = flags.read_names('--memory', memory, MODELS)
    else:
      makers = measure.makers_of(models.split(','))
  if memory is not None:
    print(measure.memory_table(planned))
  else:
    measure.report(makers, pairs, rounds, muon, out)


if __name__ == '__main__':
  sys.exit(program.run(costs, f'python -m {__package__}'))

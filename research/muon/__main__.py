"""`python -m reset_cycles.research.muon`: what its steps cost."""

from __future__ import annotations

import os
import sys

import click

from ...console import errors, flags, program
from ...console.flags import COUNT, Command, option


@click.command(cls=Command, context_settings=program.CONTEXT)
@option('workloads', 'Such as wmt,ogbg. Default: all seven.')
@option('devices', 'That the batch is split over.', COUNT, default=8)
def muon(workloads: str | None, devices: int) -> None:
  """Counts the flops of Muon's orthogonalisation at the benchmark's shapes.

  In an environment of the benchmark's main branch. Nothing is trained.
  """
  # Before jax asks for its devices.
  flag = f'--xla_force_host_platform_device_count={devices}'
  os.environ['XLA_FLAGS'] = flag
  with errors.ended_by_signals(), errors.setup_phase():
    from . import flops

    known = flops.batches(devices)
    names = flags.read_names('--workloads', workloads, known)
  for row in flops.rows(names, devices):
    print(row, flush=True)


if __name__ == '__main__':
  sys.exit(program.run(muon, f'python -m {__package__}'))

"""`soft-reset results`: measures the thesis' claims and writes RESULTS.md."""

from __future__ import annotations

import argparse
import os
import pathlib

from . import arguments, errors, signals
from .figures import MOST_SEEDS, add_log_flags, complete_logs

SUMMARY = "measure which of the thesis' claims hold, over seeds"
USAGE = '[flags]'
DESCRIPTION = (
  "Measures the thesis' claims over seeds on the three small workloads and "
  'writes the findings, after training the runs that have no logs.'
)


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags: how many seeds, which logs, and where the text goes."""
  group = parser.add_argument_group('results')
  group.add_argument(
    '--seeds',
    metavar='N',
    type=arguments.whole(10, MOST_SEEDS),
    default=10,
    help='Measure seeds 1 to N.',
  )
  group.add_argument(
    '--out',
    metavar='FILE',
    type=os.path.expanduser,
    default='RESULTS.md',
    help='Markdown file to write; an existing file is replaced.',
  )
  group.add_argument(
    '--pack',
    metavar='DIR',
    type=os.path.expanduser,
    help='Folder for archives of all logs found. Default: none.',
  )
  add_log_flags(parser)


def run(options: argparse.Namespace) -> int:
  """Trains, measures and writes; returns the exit status.

  Raises:
    SetupError: for bad input, or for logs that are damaged.
    RunFailed: if a run fails.
  """
  with errors.setup_phase():
    out = _check_out(options.out)
  with signals.ending_at_once():
    from ..mini_algoperf import files
    from ..studies.thesis import measuring, run_logs
  seeds = range(1, options.seeds + 1)
  jobs = measuring.wanted_jobs(seeds)
  command = f'soft-reset results --seeds={options.seeds} --out={options.out}'
  made = [pathlib.Path(options.pack)] if options.pack else []
  with errors.setup_phase(), complete_logs(options, jobs, *made) as logs:
    wanted = set(jobs)
    used = [log for log in logs if log.job in wanted]
    files.write_whole(out, measuring.measure(command, seeds, used))
    for folder in made:
      run_logs.pack(logs, folder)
  print(out)
  return 0


def _check_out(name: str) -> pathlib.Path:
  out = pathlib.Path(name)
  if out.is_dir():
    raise ValueError(f'--out={out} is a folder: give a file.')
  if not out.parent.is_dir():
    raise ValueError(f'--out={out}: there is no folder {out.parent}.')
  return out

"""`soft-reset set-targets`: sets a workload's targets."""

from __future__ import annotations

import pathlib

import click

from ..mini_algoperf import user_code
from ..studies.errors import RunFailed
from . import errors, flags, signals
from .run import data_dir as data_dir_flag
from .run import workload as workload_flag


@click.command(
  'set-targets', cls=flags.Command, short_help="set a workload's targets"
)
@workload_flag
@flags.option(
  'num_trials', flags.COUNT, default=20, help='Points that the search tries.'
)
@flags.option(
  'num_seeds',
  flags.COUNT,
  default=20,
  help='Seeds with which the best point is trained again.',
)
@flags.option(
  'num_steps',
  click.IntRange(2),
  help="Steps of each run. Default: 0.75 of the workload's step_hint.",
)
@data_dir_flag
@flags.option(
  'output',
  flags.FILE,
  help="JSON file for the workload's entry. Default: the file that the workload "
  'reads.',
)
@flags.switch(
  'board',
  'Instead, the targets of `soft-reset study`, whose workloads are shorter; they '
  'go to the file that it reads.',
)
@flags.switch('full', "With --board: keep the workload's own length.")
@flags.overwrite
def set_targets(
  workload: str,
  num_trials: int,
  num_seeds: int,
  num_steps: int | None,
  data_dir: str | None,
  output: str | None,
  board: bool,
  full: bool,
  overwrite: bool,
) -> int:
  """Sets a workload's targets by the benchmark's method.

  It tunes AdamW, trains the best point with fresh seeds and takes the median of
  the final metrics.
  """
  with signals.ending_at_once():
    from ..mini_algoperf import targets, trial
    from ..mini_algoperf.workloads.base import read_targets
    from ..studies.board import measure_targets, stand_in
  with (
    errors.setup_phase(workload=workload),
    user_code.reported(None, workload, before_first_step=True),
  ):
    if board:
      key, path = (
        stand_in.target_key(workload, full),
        stand_in.targets_file(workload),
      )
      known = stand_in.read_targets(workload)
    else:
      search = targets.plan_search(
        workload,
        num_trials=num_trials,
        num_seeds=num_seeds,
        num_steps=num_steps,
        data_dir=trial.full_data_dir(data_dir),
        output=pathlib.Path(output).expanduser() if output else None,
      )
      key, path = search.workload.name, search.output
      known = read_targets(path)
    if key in known and not overwrite:
      raise ValueError(
        f'{path} has targets of {key} already: --overwrite replaces them.'
      )
  try:
    with user_code.reported(None, workload, before_first_step=False):
      if board:
        found = measure_targets.measure(workload, full)
        measure_targets.write(workload, full, found)
        print(path)
        return 0
      entry = targets.set_targets(search)
  except ValueError as e:
    raise RunFailed(str(e)) from e
  print(
    f'{entry["metric"]}: validation target {entry["validation_target"]:.6g}, '
    f'test target {entry["test_target"]:.6g}'
  )
  return 0

"""`soft-reset set-targets`: sets a workload's targets."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from . import errors, flag_definitions, flag_parsing, run_command, targets


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset set-targets`.

  Raises:
    errors.SetupError: for bad input, or if no trial of the search succeeded.
  """
  groups = flag_definitions.SET_TARGETS_FLAGS
  with (
    errors.setup_phase(),
    flag_parsing.parsed_flags(
      'soft-reset set-targets', arguments, groups
    ) as values,
  ):
    run_command.require_workload(values)
    entry = targets.set_targets(
      values.workload,
      num_trials=values.num_trials,
      num_seeds=values.num_seeds,
      num_steps=values.num_steps,
      data_dir=values.data_dir,
      output=pathlib.Path(values.output) if values.output else None,
    )
  print(
    f'{entry["metric"]}: validation target {entry["validation_target"]:.6g}, '
    f'test target {entry["test_target"]:.6g}'
  )
  return 0

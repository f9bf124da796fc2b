"""`soft-reset set-targets`: sets a workload's targets."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Sequence

from absl import flags

from ..mini_algoperf import targets
from . import errors, flag_definitions, flag_parsing
from . import run as run_command


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset set-targets`.

  Raises:
    errors.SetupError: for bad input, before any training.
    ValueError: if no trial of the search ended with a number.
  """
  with contextlib.ExitStack() as stack:
    with errors.setup_phase():
      values = stack.enter_context(
        flag_parsing.parsed_flags(
          'soft-reset set-targets',
          arguments,
          flag_definitions.SET_TARGETS_FLAGS,
        )
      )
      search = _plan(values)
    entry = targets.set_targets(search)
  print(
    f'{entry["metric"]}: validation target {entry["validation_target"]:.6g}, '
    f'test target {entry["test_target"]:.6g}'
  )
  return 0


def _plan(values: flags.FlagValues) -> targets.Search:
  run_command.require_workload(values)
  return targets.plan_search(
    values.workload,
    num_trials=values.num_trials,
    num_seeds=values.num_seeds,
    num_steps=values.num_steps,
    data_dir=values.data_dir and os.path.expanduser(values.data_dir),
    output=values.output and pathlib.Path(values.output).expanduser(),
  )

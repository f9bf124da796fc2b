"""`soft-reset plot`: the standard picture of a run."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from ..mini_algoperf import metadata
from ..studies.runs import metric_plot as plots
from . import errors


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: one folder, of a trial or with trials somewhere below it; this
      package's runner or the benchmark's has written it.

  Raises:
    errors.SetupError: if that is not what is given.
  """
  with errors.setup_phase():
    if len(arguments) != 1:
      raise ValueError(
        f'{len(arguments)} arguments are given: name one folder of logs.'
      )
    for trial in find_trials(pathlib.Path(arguments[0]).expanduser()):
      print(plots.save_metric_plot(trial))
  return 0


def find_trials(folder: pathlib.Path) -> list[pathlib.Path]:
  """The trials in a folder: itself, or those below it.

  Raises:
    ValueError: if there is none.
  """
  name = metadata.meta_data_path(folder).name
  trials = sorted(path.parent for path in folder.rglob(name))
  if not trials:
    raise ValueError(
      f"{folder} has no trial: give an experiment's folder, such as "
      'experiment_runs/digits, or a trial_<n> in it.'
    )
  return trials

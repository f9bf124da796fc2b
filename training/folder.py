"""Where a run's files go: the trial's folder, from the runner's flags."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from absl import flags

_TRIAL = re.compile(r'trial_(\d+)')


def find_folder(hyperparameters: Any) -> pathlib.Path | None:
  """The folder of the trial that is starting, from the runner's flags.

  Args:
    hyperparameters: None under self-tuning, where there is one trial; else the
      point of the search space, which the runner has written into the trial's
      hparams.json. The newest trial with that point is taken.

  Returns:
    The folder, or None if no flags are parsed, the flags name no folder or the
    folder does not exist.

  Raises:
    OSError: if a folder on the path cannot be read.

  Source: the runner's get_log_dir and train_once, both generations.
  """
  values = _flag_values('experiment_dir', 'workload', 'framework')
  if values is None:
    return None
  root, workload, framework = values
  named = _flag_values('experiment_name')
  experiment = pathlib.Path(root).expanduser() / (named[0] if named else '')
  if _flag_values('append_timestamp') == [True]:
    experiment = _newest(experiment.parent.glob(experiment.name + '-*'))
  if experiment is None:
    return None
  trial = _find_trial(experiment / f'{workload}_{framework}', hyperparameters)
  return trial if trial is not None and trial.is_dir() else None


def _flag_values(*names: str) -> list[Any] | None:
  """Values of flags; None unless all are defined, parsed and not empty."""
  known = flags.FLAGS
  if not known.is_parsed() or any(name not in known for name in names):
    return None
  values = [known[name].value for name in names]
  return None if any(v in (None, '') for v in values) else values


def _newest(paths: Iterable[pathlib.Path]) -> pathlib.Path | None:
  return max(paths, key=lambda path: path.stat().st_mtime, default=None)


def _find_trial(
  folder: pathlib.Path, hyperparameters: Any
) -> pathlib.Path | None:
  if not hyperparameters:
    return folder / 'trial_1'
  point = getattr(hyperparameters, '_asdict', lambda: hyperparameters)()
  as_read = json.loads(json.dumps(point))
  matches = [(_TRIAL.fullmatch(p.name), p) for p in folder.glob('trial_*')]
  numbered = [(int(match[1]), path) for match, path in matches if match]
  for _, trial in sorted(numbered, reverse=True):
    if _read_point(trial / 'hparams.json') == as_read:
      return trial
  return None


def _read_point(path: pathlib.Path) -> Any:
  """The file's JSON value; None if it is missing or not (yet) complete."""
  try:
    return json.loads(path.read_text())
  except (OSError, ValueError):
    return None

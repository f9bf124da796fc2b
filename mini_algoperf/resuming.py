"""Starting a run, or going on with one that was interrupted.

What a run is resumed with is what it was started with: its folder says the seed
and the hyperparameters, and what would change it is refused.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

from . import checkpoints, files, logger, metadata, spec
from .run_options import RunOptions
from .submission_loader import LoadedSubmission
from .trial import (
  Settings,
  Trial,
  goes_on,
  open_log,
  restore_trial,
  set_up_trial,
)

# Called with the folder of a run that is to go on, before the set-up: raises
# ValueError if the submission is another one, or the same with other settings.
SettingsCheck = Callable[
  [pathlib.Path, LoadedSubmission, spec.Hyperparameters], None
]


def start_or_resume(
  workload: spec.Workload,
  submission: LoadedSubmission,
  settings: Settings,
  point: spec.Hyperparameters,
  log_dir: pathlib.Path,
  options: RunOptions,
  check_settings: SettingsCheck | None = None,
) -> Trial | None:
  """The trial before its next step; None if it is complete already.

  Args:
    workload: fresh.
    submission: the functions under test.
    settings: how the run goes.
    point: hyperparameters for a trial that is not there yet.
    log_dir: the trial's folder, which exists.
    options: of the experiment.
    check_settings: None checks nothing.

  Raises:
    ValueError: if the run cannot be gone on with, or not in this way.
  """
  raw = _read_checkpoint(log_dir, options) if options.resume_last_run else None
  seed = _choose_seed(options.rng_seed, log_dir, raw)
  first = metadata.meta_data_path(log_dir)
  if raw and not first.exists():  # lost; who reads the folder looks for it
    files.write_json(first, metadata.make_meta_data(workload, seed))
  if raw and not goes_on(raw['train_state'], raw['global_step'], settings):
    return None
  point = _choose_point(point, log_dir, raw)
  if raw and check_settings:
    check_settings(log_dir, submission, point)
  trial = set_up_trial(workload, submission, settings, point, seed, log_dir)
  if raw:
    restore_trial(trial, raw)
  open_log(trial, dataclasses.asdict(options))
  return trial


def _read_checkpoint(
  log_dir: pathlib.Path, options: RunOptions
) -> dict[str, Any] | None:
  """The one to go on from; None if the run was killed before its first."""
  _check_options(log_dir, options)
  anew = '--overwrite instead of --resume_last_run starts anew.'
  try:
    raw = checkpoints.read_latest(log_dir)
  except ValueError as e:
    raise ValueError(f'{e}; {anew}') from e
  # The first evaluation is logged just before the first checkpoint is written.
  num_evaluations = len(files.read_rows(log_dir / logger.EVAL_MEASUREMENTS))
  if raw is None and num_evaluations > 1:
    raise ValueError(f'{log_dir} has no checkpoint; {anew}')
  return raw


def _check_options(log_dir: pathlib.Path, options: RunOptions) -> None:
  recorded = log_dir / 'flags_0.json'
  if not recorded.exists():
    return
  before = files.read_json(recorded)
  for name in ('generation', 'tuning_ruleset'):
    given = getattr(options, name)
    if before.get(name, given) != given:
      raise ValueError(
        f'--{name}={given}: the run to resume was started with '
        f'{before[name]}; give that.'
      )


def _choose_seed(
  given: int | None, log_dir: pathlib.Path, raw: Mapping[str, Any] | None
) -> int:
  """The seed with which the trial was started, is to start, or a random one.

  All trials of an experiment have the first one's, as in the benchmark.

  Args:
    given: the flag's, or None.
    log_dir: the trial's folder.
    raw: the checkpoint to go on from, or None.

  Raises:
    ValueError: if two of flag, checkpoint and meta data disagree.
  """
  recorded = metadata.recorded_seed(log_dir)
  if raw and recorded not in (None, raw['rng_seed']):
    raise ValueError(
      f'{metadata.meta_data_path(log_dir)} has the seed {recorded}, but the '
      f'checkpoint is of a run with {raw["rng_seed"]}.'
    )
  if raw:
    recorded = raw['rng_seed']
  elif recorded is None:
    recorded = _first_trials_seed(log_dir.with_name('trial_1'))
  if given is None and recorded is None:
    return struct.unpack('I', os.urandom(4))[0]
  if None not in (given, recorded) and given != recorded:
    raise ValueError(
      f'--rng_seed={given}: the run to resume was started with {recorded}; '
      'leave the flag out.'
    )
  return recorded if given is None else given


def _first_trials_seed(log_dir: pathlib.Path) -> int | None:
  seed = metadata.recorded_seed(log_dir)
  if seed is None:
    raw = checkpoints.read_latest(log_dir)
    seed = raw and raw['rng_seed']
  return seed


def _choose_point(
  point: spec.Hyperparameters,
  log_dir: pathlib.Path,
  raw: Mapping[str, Any] | None,
) -> spec.Hyperparameters:
  """The trial's hyperparameters, those of hparams.json if it was started."""
  if point is None:
    return None
  path = log_dir / 'hparams.json'
  if not raw and not metadata.meta_data_path(log_dir).exists():
    files.write_json(path, point._asdict())
    return point
  if not path.exists():
    raise ValueError(f'{path} is missing: what the trial was started with.')
  kept = files.read_json(path)
  if not isinstance(kept, dict):
    raise ValueError(f'{path} must hold an object of hyperparameters.')
  return collections.namedtuple('Hyperparameters', kept)(**kept)

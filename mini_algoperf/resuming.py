"""Going on with a run that was interrupted: what is taken from its folder."""

from __future__ import annotations

import collections
import os
import pathlib
import struct
from typing import Any

from . import checkpoints, files, logger, metadata
from .run_options import RunOptions
from .trial import Settings, goes_on


def read_checkpoint(
  log_dir: pathlib.Path, options: RunOptions
) -> dict[str, Any] | None:
  """The checkpoint to go on from; None if the run was killed before its first.

  Raises:
    ValueError: if there should be one, or the flags are those of another run.
  """
  recorded = log_dir / 'flags_0.json'
  if recorded.exists():
    before = files.read_json(recorded)
    for name in ('generation', 'tuning_ruleset'):
      value = getattr(options, name)
      if before.get(name, value) != value:
        raise ValueError(
          f'--{name}={value}: the run to resume was started with '
          f'{before[name]}; give that.'
        )
  raw = checkpoints.read_latest(log_dir)
  # The first evaluation is logged just before the first checkpoint is written.
  num_evaluations = len(files.read_rows(log_dir / logger.EVAL_MEASUREMENTS))
  if raw is None and (
    num_evaluations > 1 or checkpoints.checkpoint_paths(log_dir)
  ):
    raise ValueError(
      f'{log_dir} has no checkpoint that can be read; --overwrite instead of '
      '--resume_last_run starts anew.'
    )
  return raw


def is_complete(raw: dict[str, Any], settings: Settings) -> bool:
  """Whether a run with this checkpoint takes no further step."""
  limit = settings.max_global_steps
  return not goes_on(raw['train_state'], settings.stop_at_targets) or (
    limit is not None and raw['global_step'] >= limit
  )


def choose_seed(given: int | None, log_dir: pathlib.Path) -> int:
  """The seed with which the trial was started, is to start, or a random one.

  All trials of an experiment have the first one's, as in the benchmark.
  """
  recorded = metadata.recorded_seed(log_dir)
  if recorded is None:
    recorded = metadata.recorded_seed(log_dir.with_name('trial_1'))
  if given is None and recorded is None:
    return struct.unpack('I', os.urandom(4))[0]
  if None not in (given, recorded) and given != recorded:
    raise ValueError(
      f'--rng_seed={given}: the run to resume was started with {recorded}; '
      'leave the flag out.'
    )
  return recorded if given is None else given


def kept_point(point: Any, log_dir: pathlib.Path) -> Any:
  """The trial's hyperparameters, those of hparams.json if it was started."""
  if point is None:
    return None
  path = log_dir / 'hparams.json'
  if not (path.exists() and metadata.meta_data_path(log_dir).exists()):
    files.write_json(path, point._asdict())
    return point
  kept = files.read_json(path)
  return collections.namedtuple('Hyperparameters', kept)(**kept)

"""Recorded runs from the benchmark's folders of logs.

<root>/.../<submission>/study_<i>/<workload>_<framework>/trial_<j>/
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping

import numpy as np

from ...mini_algoperf import files, logger, metadata
from ..runs.log import Log, read_log
from ..scores.times import read_target
from .reading import (
  RecordedRun,
  RecordedWorkload,
  read_runs,
  read_workloads,
)

BOARD, RULESET = 'logs', 'external'
_LOSSES = ('validation/loss', 'validation/ctc_loss')


def read_logs(root: pathlib.Path) -> list[RecordedRun]:
  """All trials below a folder that were ever evaluated.

  A workload of the benchmark has the target, step hint and maximum runtime of
  2024, any other those of its trials' meta data.

  Raises:
    ValueError: if there is no trial, or the files of one are damaged.
  """
  found = sorted(root.glob(f'**/study_*/*/trial_*/{logger.EVAL_MEASUREMENTS}'))
  if not found:
    raise ValueError(
      f'{root} has no <submission>/study_<i>/<workload>_<framework>/trial_<j>/'
      f'{logger.EVAL_MEASUREMENTS}: give a folder of logs.'
    )
  known = read_workloads()
  return [_read_trial(path, known) for path in found]


def read_any(folder: pathlib.Path) -> list[RecordedRun]:
  """The runs of a folder of recorded runs, with runs.csv, or of logs.

  Raises:
    ValueError: if there is no such folder, or it is neither.
  """
  if not folder.is_dir():
    raise ValueError(f'{folder}: there is no such folder.')
  is_recorded = (folder / 'runs.csv').exists()
  return read_runs(folder) if is_recorded else read_logs(folder)


def _read_trial(
  path: pathlib.Path, known: Mapping[str, RecordedWorkload]
) -> RecordedRun:
  submission, study, folder, trial, _ = path.parts[-5:]
  name, framework = re.fullmatch('(.*?)(?:_(jax|pytorch))?', folder).groups()
  workload = known.get(name) or _workload(path.parent, name)
  log = read_log(path)
  return RecordedRun(
    BOARD,
    RULESET,
    submission,
    framework or '',
    study,
    workload,
    trial,
    '',
    log.whole_numbers('global_step').astype(np.float64),
    log.numbers('accumulated_submission_time'),
    log.numbers(_loss_column(log)),
    log.numbers(f'validation/{workload.metric}'),
  )


def _loss_column(log: Log) -> str:
  columns = log.rows[0] if log.rows else ()
  return next((name for name in _LOSSES if name in columns), _LOSSES[0])


def _workload(trial: pathlib.Path, name: str) -> RecordedWorkload:
  path = metadata.meta_data_path(trial)
  if not path.exists():
    raise ValueError(
      f'{path} is missing: {name} is not a workload of the benchmark, and nothing '
      'says what its target is.'
    )
  metric, target, rises = read_target(path)
  meta = files.read_json(path)
  numbers = []
  for key in ('workload.step_hint', 'workload.max_allowed_runtime_sec'):
    value = meta.get(key)
    if not isinstance(value, (int, float)) or not value > 0:
      raise ValueError(f'{path}: {key} is {value!r}; it must be above 0.')
    numbers.append(float(value))
  return RecordedWorkload(name, metric, rises, target, *numbers)

"""Times to the targets, from the benchmark's folders of logs.

  <root>/<submission>/study_<i>/<workload>_<framework>/trial_<j>/

A study's time is that of its best trial, a submission's the median of its
studies'. A target that is met exactly is reached.

The published scoring code differs in two things: of a study's trials it takes
the one with the fewest evaluations to the target, not the fewest seconds, and
it leaves out a trial without evaluations, which here has not reached its
target. On the self-tuning runs of 2024 neither changes a score.
"""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, logger, metadata
from ..runs.log import read_log

# The benchmark's metrics; what a workload's meta data say comes first.
RISING = ('accuracy', 'bleu', 'mean_average_precision', 'ssim')
FALLING = ('ce_loss', 'ctc_loss', 'error_rate', 'l1_loss', 'loss', 'ppl', 'wer')


class TrialTimes(NamedTuple):
  """One training run and when it had reached its target."""

  submission: str
  study: str
  workload: str
  seconds: float  # of submission time; infinite if never


def read_trials(root: pathlib.Path) -> list[TrialTimes]:
  """All trials below a folder.

  A trial that was never evaluated hasn't reached its target.

  Raises:
    ValueError: if there is none, or the files of one don't say what its target
      is.
  """
  name = metadata.meta_data_path(root).name
  found = sorted(root.glob(f'*/study_*/*/trial_*/{name}'))
  if not found:
    raise ValueError(
      f'{root} has no <submission>/study_<i>/<workload>_<framework>/'
      'trial_<j> with meta data: give a folder of submissions.'
    )
  return [_read_trial(path) for path in found]


def _read_trial(meta_path: pathlib.Path) -> TrialTimes:
  log_dir = meta_path.parent
  metric, target, rises = read_target(meta_path)
  log = read_log(log_dir / logger.EVAL_MEASUREMENTS)
  seconds = time_to_target(
    log.numbers('accumulated_submission_time'),
    log.numbers(f'validation/{metric}'),
    target,
    rises,
  )
  submission, study, workload, _ = log_dir.parts[-4:]
  return TrialTimes(
    submission, study, re.sub('_(jax|pytorch)$', '', workload), seconds
  )


def read_target(meta_path: pathlib.Path) -> tuple[str, float, bool]:
  """The target metric, its target, and whether it rises.

  Raises:
    ValueError: if a trial's meta data don't say so.
  """
  meta = files.read_json(meta_path)
  try:
    metric = meta['workload.target_metric_name']
    target = float(meta['workload.validation_target_value'])
  except (KeyError, TypeError, ValueError) as e:
    raise ValueError(f'{meta_path} has no target: {e}.') from e
  rises = meta.get('workload.metric_rises')
  if isinstance(rises, bool):
    return metric, target, rises
  if metric not in RISING + FALLING:
    raise ValueError(
      f'{meta_path}: it is not known whether {metric!r} should rise; set '
      'workload.metric_rises to true or false.'
    )
  return metric, target, metric in RISING


def time_to_target(
  seconds: np.ndarray, metric: np.ndarray, target: float, rises: bool
) -> float:
  """Seconds at the first evaluation that is at the target or beyond it.

  Args:
    seconds: shape=(n,); submission time at each evaluation.
    metric: shape=(n,); NaN counts as not reached.
    target: of the metric.
    rises: whether larger is better.

  Returns:
    Seconds; infinity if there is no such evaluation.
  """
  reached = np.flatnonzero(metric >= target if rises else metric <= target)
  return float(seconds[reached[0]]) if reached.size else math.inf


def median_times(trials: Iterable[TrialTimes]) -> dict[str, dict[str, float]]:
  """Seconds by submission and workload: the median over the studies.

  Args:
    trials: those of one study and workload are its trials, the best of which
      counts.
  """
  return {
    submission: {w: float(np.median(list(s.values()))) for w, s in own.items()}
    for submission, own in study_times(trials).items()
  }


def study_times(
  trials: Iterable[TrialTimes],
) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
  """Seconds of the best trial, by submission, workload and study."""
  best: dict[str, dict[str, dict[str, float]]] = {}
  for submission, study, workload, seconds in trials:
    studies = best.setdefault(submission, {}).setdefault(workload, {})
    studies[study] = min(seconds, studies.get(study, math.inf))
  return best

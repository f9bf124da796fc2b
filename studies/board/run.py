"""Trains one run of the board, and keeps its logs in

  <out>/<condition>/<submission>/study_<seed>/<workload>_jax/trial_1/

as the benchmark's eval_measurements.csv and meta_data_0.json. A run that failed
also has failure.txt there, and counts as not having reached its target.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import pathlib
import shutil
import traceback
from collections.abc import Sequence
from typing import NamedTuple

import jax

from ...mini_algoperf import files, logger, metadata, runner
from ...mini_algoperf.submission_loader import load_submission
from ...mini_algoperf.trial import Settings, Trial, open_log, set_up_trial
from ...mini_algoperf.workloads import MiniWorkload
from .. import workers
from . import stand_in
from .conditions import get_condition
from .entries import Contender

FAILURE = 'failure.txt'
KEPT = (logger.EVAL_MEASUREMENTS, 'meta_data_0.json')
_RUNNING = '.running'
_CLEAR_EVERY = 20
_runs_of_process = [0]


class Task(NamedTuple):
  """A run."""

  entry: Contender
  workload: str
  condition: str
  seed: int
  full: bool = False

  @property
  def title(self) -> str:
    """A name for progress bars and messages."""
    return f'{self.condition} {self.workload} {self.entry.name} {self.seed}'


def order(
  entries: Sequence[Contender],
  workloads: Sequence[str],
  conditions: Sequence[str],
  seeds: Sequence[int],
  full: bool = False,
) -> list[Task]:
  """All runs, one seed after the other: any beginning can be compared."""
  return [
    Task(entry, workload, condition, seed, full)
    for seed in seeds
    for condition in conditions
    for workload in workloads
    for entry in entries
  ]


def kept_path(root: pathlib.Path, job: Task) -> pathlib.Path:
  """Where a run is kept once it has ended."""
  folder = f'{job.condition}_full' if job.full else job.condition
  study = root / folder / job.entry.name / f'study_{job.seed}'
  return study / f'{stand_in.short_name(job.workload)}_jax' / 'trial_1'


def is_done(root: pathlib.Path, job: Task, retry: bool = False) -> bool:
  """Whether a run has ended; one that failed counts unless `retry`.

  A folder without meta data, by which readers find a run, is none.
  """
  path = kept_path(root, job)
  has_ended = metadata.meta_data_path(path).exists()
  return has_ended and not (retry and (path / FAILURE).exists())


class StepClock:
  """A clock that advances only with steps."""

  def __init__(self, seconds_per_step: float) -> None:
    self._seconds_per_step = seconds_per_step
    self.trial: Trial | None = None

  def __call__(self) -> float:
    """Seconds since the run began."""
    steps = self.trial.global_step if self.trial else 0
    return steps * self._seconds_per_step


class _Ending(runner.Observer):
  """Ends a run at the validation target, as no other split is evaluated."""

  def on_evaluation(self, trial: Trial) -> None:
    state = trial.train_state
    state['test_goal_reached'] = state['validation_goal_reached']


def train(job: Task, root: pathlib.Path) -> None:
  """Trains one run and keeps its logs, or its traceback if it fails.

  Whatever a submission raises is caught.
  """
  place = kept_path(root, job)
  work = root / _RUNNING / '__'.join(place.relative_to(root).parts)
  shutil.rmtree(work, ignore_errors=True)
  work.mkdir(parents=True)
  with (work / 'output.txt').open('w') as out, workers.redirected(out):
    try:
      _train(job, work)
    except Exception:  # noqa: BLE001 - a submission may raise anything
      _record_failure(job, work, traceback.format_exc())
  _keep(work, place)
  _runs_of_process[0] += 1
  if _runs_of_process[0] % _CLEAR_EVERY == 0:
    _workload.cache_clear()
    jax.clear_caches()
  gc.collect()


def give_up(job: Task, root: pathlib.Path, why: str) -> None:
  """Records as failed a run that has killed its process."""
  work = root / _RUNNING / f'lost_{job.title.replace(" ", "_")}'
  work.mkdir(parents=True, exist_ok=True)
  _record_failure(job, work, why)
  _keep(work, kept_path(root, job))


@functools.lru_cache(maxsize=32)
def _workload(
  name: str, condition: str, factor: float, full: bool
) -> MiniWorkload:
  """A workload, cached for the next run with its evaluation and data."""
  of = get_condition(condition)
  of = dataclasses.replace(of, rate_factor=factor * of.rate_factor)
  return stand_in.make_workload(name, of, full)


def workload_of(job: Task) -> MiniWorkload:
  """The workload as the run's submission sees it."""
  return _workload(job.workload, job.condition, job.entry.factor, job.full)


def _train(job: Task, log_dir: pathlib.Path) -> None:
  workload = workload_of(job)
  settings = Settings(
    workload.default_batch_size,
    workload.eval_batch_size,
    eval_every=workload.eval_every_steps,
    save_checkpoints=False,
  )
  clock = StepClock(get_condition(job.condition).seconds_per_step)
  submission = load_submission(job.entry.path)
  trial = set_up_trial(
    workload, submission, settings, None, job.seed, log_dir, clock
  )
  clock.trial = trial
  open_log(trial, {'workload': job.workload, 'rng_seed': job.seed})
  runner.train(trial, _Ending())


def _record_failure(job: Task, work: pathlib.Path, why: str) -> None:
  (work / FAILURE).write_text(why, encoding='utf-8')
  if not (work / KEPT[1]).exists():
    meta = metadata.make_meta_data(workload_of(job), job.seed)
    files.write_json(work / KEPT[1], meta)


def _keep(work: pathlib.Path, place: pathlib.Path) -> None:
  """Moves the files to keep to their place, all at once or not at all."""
  for path in work.iterdir():
    if path.name not in (*KEPT, FAILURE):
      path.unlink()
  shutil.rmtree(place, ignore_errors=True)
  place.parent.mkdir(parents=True, exist_ok=True)
  os.rename(work, place)

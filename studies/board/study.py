"""A study: all runs of submissions x workloads x conditions x seeds.

The logs of a run are kept in

  <out>/<condition>/<submission>/study_<seed>/<workload>_jax/trial_1/

as the benchmark's eval_measurements.csv and meta_data_0.json. Existing runs are
not trained again; a run that fails, or kills its process, has failure.txt
there, counts as not having reached its target, and the others go on.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import pathlib
import re
import shutil
import traceback
from collections.abc import Sequence
from typing import NamedTuple

import jax

from ...mini_algoperf import RunOptions, files, logger, metadata, runner
from ...mini_algoperf.trial import BatchSizes, Trial
from ...mini_algoperf.workloads.base import MiniWorkload
from .. import slurm, workers
from ..errors import RunFailed
from . import entries, stand_in
from .conditions import get_condition
from .entries import Contender
from .logs import FAILURE

FACTORS = ('tuned@8', 'tuned@16', 'tuned@4', 'tuned@2')
_CACHE = '.compiled'
_ATTEMPTS = 2  # before a run that kills its worker process is given up
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


def plan(
  submissions: Sequence[str],
  workloads: Sequence[str],
  conditions: Sequence[str],
  seeds: Sequence[int],
  full: bool = False,
  published: bool = False,
) -> list[Task]:
  """All runs, one seed after the other: any beginning can be compared.

  Args:
    submissions: as `entries.get_entry` takes them; none for all known ones.
    workloads: small workloads, or file.py:ClassName.
    conditions: see `conditions.get_condition`.
    seeds: of the runs.
    full: whether workloads keep their own lengths.
    published: whether rates act as they were published.

  Raises:
    ValueError: for a name that is unknown, anything that is given twice, or a
      missing target.
  """
  names = submissions or list(entries.known_paths())
  chosen = [entries.get_entry(name, published) for name in names]
  _refuse_doubles('submissions', [entry.name for entry in chosen])
  _refuse_doubles('conditions', conditions)
  _refuse_doubles('workloads', workloads)
  _refuse_doubles('seeds', seeds)
  for condition in conditions:
    for workload in workloads:
      stand_in.make_workload(workload, get_condition(condition), full)
  return [
    Task(entry, workload, condition, seed, full)
    for seed in seeds
    for condition in conditions
    for workload in workloads
    for entry in chosen
  ]


def _refuse_doubles(flag: str, given: Sequence[object]) -> None:
  # Two runs of one name would write into the same folder.
  for one in given:
    if given.count(one) > 1:
      raise ValueError(f'--{flag}: {one} is given twice; give it once.')


def read_seeds(text: str) -> list[int]:
  """Seeds as the command line gives them: '1-3,7'.

  Raises:
    ValueError: for anything else.
  """
  seeds: list[int] = []
  for part in text.split(','):
    found = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
    if found is None:
      raise ValueError(f'--seeds={text}: must be like 1-10 or 3,5,8.')
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
      raise ValueError(f'--seeds={text}: {part} must go from low to high.')
    seeds.extend(range(first, last + 1))
  return seeds


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

  def on_step(self, trial: Trial) -> None:
    """Nothing ends between evaluations."""

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
  options = RunOptions(job.workload, save_checkpoints=False)
  sizes = BatchSizes(workload.default_batch_size, workload.eval_batch_size)
  clock = StepClock(get_condition(job.condition).seconds_per_step)
  submission = entries.load(job.entry)
  trial = Trial(
    workload, submission, options, sizes, None, job.seed, log_dir, clock
  )
  clock.trial = trial
  trial.open_log({'workload': job.workload, 'rng_seed': job.seed})
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


def missing(
  jobs: Sequence[Task], root: pathlib.Path, retry: bool = False
) -> list[Task]:
  """The runs that have not ended yet, in their order."""
  return [job for job in jobs if not is_done(root, job, retry)]


def train_all(
  jobs: Sequence[Task],
  root: pathlib.Path,
  num_workers: int,
  retry: bool = False,
  partition: str | None = None,
) -> None:
  """Trains the missing runs, here or on a cluster.

  Args:
    jobs: all runs of the study.
    root: folder of the study.
    num_workers: how many runs are trained at a time; on a cluster, tasks.
    retry: whether runs that failed are trained again.
    partition: of Slurm; 'local' tries that out on this machine; None trains in
      worker processes.

  Raises:
    ValueError: if there is no Slurm.
    RunFailed: if runs broke, after all others were trained.
  """
  left = missing(jobs, root, retry)
  if partition is None:
    _train_here(left, root, num_workers)
  else:
    slurm.train_all(left, root, num_workers, train, partition)
  paths = [kept_path(root, job) / FAILURE for job in jobs]
  broken = [path for path in paths if path.exists()]
  if broken:
    raise RunFailed(
      f'{len(broken)} of {len(jobs)} runs broke: see {broken[0]}. --retry '
      'trains them again.'
    )


def _train_here(left: list[Task], root: pathlib.Path, num_workers: int) -> None:
  cache, lost = (root / _CACHE).resolve(), 0
  while left:
    try:
      workers.train_all(left, root, num_workers, train, _title, cache)
      return
    except RunFailed:
      still = missing(left, root)
      lost = lost + 1 if len(still) == len(left) else 1
      left = still
    if lost >= _ATTEMPTS and left:
      give_up(left[0], root, 'Its process was killed, twice.')
      left, lost = left[1:], 0


def _title(job: Task) -> str:
  return job.title

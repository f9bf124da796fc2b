"""A study: all runs of submissions x workloads x conditions x seeds.

The logs of a run are kept in

  <out>/<condition>/<submission>/study_<seed>/<workload>_jax/trial_1/

as the benchmark's eval_measurements.csv and meta_data_0.json, and the events of
a submission that writes them, cycles.csv. Existing runs are
not trained again; a run that fails, or kills its process, has failure.txt
there, counts as not having reached its target, and the others go on.
"""

from __future__ import annotations

import functools
import gc
import pathlib
import shutil
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from ...console.errors import RunFailed
from ...engine.records import CYCLES
from ...mini_algoperf import RunOptions, files, logger, metadata, runner
from ...mini_algoperf.trial import BatchSizes, Trial
from ...mini_algoperf.workloads.base import MiniWorkload
from ...views.paths import META_DATA
from .. import workers
from . import entries, stand_in
from .conditions import get_condition
from .entries import Contender
from .runs import FAILURE
from .workload_sets import workloads_of

KEPT = (logger.EVAL_MEASUREMENTS, META_DATA, CYCLES)
_ATTEMPTS = 2  # before a run that kills its worker process is given up
_CLEAR_EVERY = 20
_runs_of_process = [0]


class StudyRun(NamedTuple):
  """A run."""

  entry: Contender
  workload: str
  condition: str
  seed: int


def runs_of(
  submissions: Sequence[str],
  workloads: Sequence[str],
  conditions: Sequence[str],
  seeds: Sequence[int],
) -> list[StudyRun]:
  """All runs, one seed after the other: any beginning can be compared.

  `entries.get_entry` takes the submissions, all known ones if none is given;
  `workload_sets.workloads_of` the workloads, `conditions.get_condition` the
  conditions.

  Raises:
    ValueError: for a name that is unknown or given twice, or a missing target.
  """
  workloads = workloads_of(workloads)
  names = submissions or list(entries.known_paths())
  chosen = [entries.get_entry(name) for name in names]
  for flag, given in (
    ('submissions', [entry.name for entry in chosen]),
    ('conditions', conditions),
    ('workloads', workloads),
  ):
    for name in given:
      if list(given).count(name) > 1:  # they would write into the same folder
        raise ValueError(f'--{flag}: {name} is given twice; give it once.')
  for condition in conditions:
    for workload in workloads:
      stand_in.make_workload(workload, get_condition(condition))
  return [
    StudyRun(entry, workload, condition, seed)
    for seed in seeds
    for condition in conditions
    for workload in workloads
    for entry in chosen
  ]


def kept_path(root: pathlib.Path, job: StudyRun) -> pathlib.Path:
  """Where a run is kept once it has ended."""
  study = root / job.condition / job.entry.name / f'study_{job.seed}'
  return study / f'{stand_in.short_name(job.workload)}_jax' / 'trial_1'


def missing(jobs: Sequence[StudyRun], root: pathlib.Path) -> list[StudyRun]:
  """The runs that have not ended yet, in their order.

  One that failed has ended. One without meta data, by which readers find a run,
  has not.
  """
  return [j for j in jobs if not (kept_path(root, j) / META_DATA).exists()]


def train(job: StudyRun, root: pathlib.Path) -> None:
  """Trains one run and keeps its logs, or its traceback if it fails.

  Whatever a submission raises is caught.
  """
  failure = ''
  with workers.working_folder(root, _name(job)) as work:
    try:
      _train(job, work)
    except Exception:  # noqa: BLE001 - a submission may raise anything
      failure = traceback.format_exc()
  _keep(job, root, work, failure)
  _runs_of_process[0] += 1
  if _runs_of_process[0] % _CLEAR_EVERY == 0:
    _workload.cache_clear()
    jax.clear_caches()
  gc.collect()


@functools.lru_cache(maxsize=32)
def _workload(name: str, condition: str, factor: float) -> MiniWorkload:
  """A workload, cached for the next run with its evaluation and data."""
  of = get_condition(condition)
  of = of._replace(rate_factor=factor * of.rate_factor)
  return stand_in.make_workload(name, of)


def workload_of(job: StudyRun) -> MiniWorkload:
  """The workload as the run's submission sees it."""
  return _workload(job.workload, job.condition, job.entry.factor)


def _train(job: StudyRun, log_dir: pathlib.Path) -> None:
  workload: Any = workload_of(job)
  workload.is_started = False
  options = RunOptions(job.workload, save_checkpoints=False)
  sizes = BatchSizes(workload.default_batch_size, workload.eval_batch_size)
  seconds_per_step = get_condition(job.condition).seconds_per_step
  trial: Trial | None = None

  def clock() -> float:
    """Seconds since the run began; they advance only with steps."""
    return seconds_per_step * trial.global_step if trial else 0.0

  submission = entries.load(job.entry)
  trial = Trial(workload, submission, options, sizes, job.seed, log_dir, clock)
  trial.open_log({'workload': job.workload, 'rng_seed': job.seed})
  runner.train(trial)


def _name(job: StudyRun) -> str:
  """Of the folder in which a run is under way."""
  return '__'.join(kept_path(pathlib.Path(), job).parts)


def _keep(
  job: StudyRun, root: pathlib.Path, work: pathlib.Path, failure: str
) -> None:
  """Copies the files to keep to their place, all at once or not at all."""
  if failure:
    (work / FAILURE).write_text(failure, encoding='utf-8')
    if not (work / META_DATA).exists():
      meta = metadata.make_meta_data(workload_of(job), job.seed)
      files.write_json(work / META_DATA, meta)
  with files.whole_folder(kept_path(root, job)) as kept:
    for name in (*KEPT, FAILURE):
      if (work / name).exists():
        shutil.copyfile(work / name, kept / name)
  shutil.rmtree(work)


def train_all(
  jobs: Sequence[StudyRun], root: pathlib.Path, num_workers: int
) -> None:
  """Trains the missing runs, in processes; RunFailed if any broke."""
  left, lost = missing(jobs, root), 0
  while left:
    # A process that is killed ends the others: only a run alone is to blame.
    now, workers_now = (left[:1], 1) if lost else (left, num_workers)
    try:
      workers.train_all(now, root, workers_now, train)
      lost = 0
    except RunFailed:
      lost += 1
    if lost > _ATTEMPTS:
      with workers.working_folder(root, _name(left[0])) as work:
        pass
      _keep(left[0], root, work, 'Its process was killed, twice.')
      lost = 0
    left = missing(left, root)
  failures = [kept_path(root, job) / FAILURE for job in jobs]
  broken = [path for path in failures if path.exists()]
  if broken:
    raise RunFailed(
      f'{len(broken)} of {len(jobs)} runs broke: see {broken[0]}. One whose '
      'folder is removed is trained again.'
    )

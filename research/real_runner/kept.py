"""Logs of the thesis' runs, kept as `reset-cycles figures` reads them."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import zipfile

from ...console.errors import RunFailed
from ...views.paths import META_DATA, read_object, write_archive
from ...views.planned_runs import read_planned_run
from ...views.run_files import FLAGS
from ..thesis.folders import KEPT_FILES, Job
from ..thesis.settings import RUNS
from .cases import CASES, THESIS
from .logs import RunKey

_META = ('target_metric_name', 'validation_target_value')


def is_kept(run: RunKey) -> bool:
  """Whether it is a run of the thesis, by the counted clock, to its target."""
  is_own = run.data in THESIS and run.target == CASES[run.data].target
  return is_own and run.clock == 'counted'


def job_of(run: RunKey) -> Job:
  """The thesis' run that a key stands for, on such as 'ogbg_tox21'."""
  workload = f'{CASES[run.data].workload}_{THESIS[run.data]}'
  return Job(workload, run.entry.removeprefix('thesis_'), run.seed)


def keep(trial: pathlib.Path, run: RunKey, root: pathlib.Path) -> pathlib.Path:
  """Adds what figures need of a finished run to <root>/<workload>_<run>.zip.

  Flags and meta data are reduced to what is the same on any machine. Other
  processes wait until the archive is written.

  Raises:
    RunFailed: if the run was not trained with the settings that it is named
      after: figures would take it for another one.
  """
  job = job_of(run)
  plan = read_planned_run(trial)
  if plan is None or plan.settings != RUNS.get(job.run):
    raise RunFailed(
      f'{trial} has not the settings of {job.run}: export the entries anew.'
    )
  meta = read_object(trial / META_DATA)
  reduced = {
    META_DATA: {f'workload.{name}': meta[f'workload.{name}'] for name in _META},
    FLAGS: {'workload': job.workload, 'rng_seed': job.seed},
  }
  root.mkdir(parents=True, exist_ok=True)
  archive = root / f'{job.workload}_{job.run}.zip'
  lock = os.open(root, os.O_RDONLY)
  try:
    fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
    contents: dict[str, bytes] = {}
    if archive.exists():
      with zipfile.ZipFile(archive) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()}
    for name in KEPT_FILES:
      file = trial / name
      values = reduced.get(name)
      data = json.dumps(values).encode() if values else file.read_bytes()
      contents[f'seed_{job.seed}/{name}'] = data
    return write_archive(archive, contents)
  finally:
    os.close(lock)

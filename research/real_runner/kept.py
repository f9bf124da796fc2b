"""Logs of the thesis' runs, kept as `reset-cycles figures` reads them."""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

from ...views.paths import META_DATA, read_object, write_archive
from ...views.run_files import FLAGS
from ..thesis.folders import KEPT_FILES, Job
from .cases import CASES, THESIS
from .logs import RunKey

_META = ('target_metric_name', 'validation_target_value')


def job_of(run: RunKey) -> Job:
  """Which of the thesis' runs it is, on a workload such as 'ogbg_tox21'."""
  workload = f'{CASES[run.data].workload}_{THESIS[run.data]}'
  return Job(workload, run.entry.removeprefix('thesis_'), run.seed)


def keep(trial: pathlib.Path, run: RunKey, root: pathlib.Path) -> pathlib.Path:
  """Adds what figures need of a finished run to <root>/<workload>_<run>.zip.

  Flags and meta data are cut down to what is the same on any machine.
  """
  job = job_of(run)
  archive = root / f'{job.workload}_{job.run}.zip'
  contents: dict[str, bytes] = {}
  if archive.exists():
    with zipfile.ZipFile(archive) as packed:
      contents = {name: packed.read(name) for name in packed.namelist()}
  meta = read_object(trial / META_DATA)
  short: dict[str, dict[str, Any]] = {
    META_DATA: {f'workload.{name}': meta[f'workload.{name}'] for name in _META},
    FLAGS: {'workload': job.workload, 'rng_seed': job.seed},
  }
  for name in KEPT_FILES:
    values = short.get(name)
    file = trial / name
    data = json.dumps(values).encode() if values else file.read_bytes()
    contents[f'seed_{job.seed}/{name}'] = data
  return write_archive(archive, contents)

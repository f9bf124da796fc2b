"""Runs entries in main's own runner, beside each other.

README.md says what to install and fetch first.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ...console.errors import RunFailed
from ..thesis import registry
from . import kept, logs
from .cases import (
  CASES,
  EVAL_SHARE,
  LARGER,
  REAL,
  STILL,
  TIMED,
  data_of,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def points_of(trial: pathlib.Path, metric: str) -> list[logs.Point]:
  """The results of a run that the benchmark has written."""
  with (trial / 'eval_measurements.csv').open(newline='') as lines:
    return [
      logs.Point(
        int(row['global_step']),
        float(row['score']),
        float(row.get('validation/loss') or row['validation/ctc_loss']),
        float(row[f'validation/{metric}']),
        float(row.get(f'test/{metric}') or math.nan),
      )
      for row in csv.DictReader(lines)
    ]


def set_up_of(log: str) -> str:
  """Seconds that the benchmark's profiler reports, of set-up and first step."""
  rows = [row.split('|') for row in log.splitlines() if row.startswith('|  ')]
  seconds = {row[1].strip(): row[2].strip() for row in rows}
  names = 'Initializing model', 'Initializing optimizer', 'Update parameters'
  return ', '.join(f'{name} {seconds[name]} s' for name in names)


@dataclasses.dataclass(frozen=True)
class Study:
  """What a command line asks for.

  Attributes:
    benchmark: its checkout.
    entries: has a folder for each entry.
    out: for the benchmark's own logs.
    data: names of `CASES`.
    folders: where data lie, by their name.
    seeds: of the runs.
    clock: counted, or real.
    target: of validation, in place of the data sets' own, or None.
    set_up: whether only set-up and first step are timed.
  """

  benchmark: pathlib.Path
  entries: pathlib.Path
  out: pathlib.Path
  data: Sequence[str]
  folders: Mapping[str, pathlib.Path]
  seeds: Sequence[int]
  clock: str
  target: float | None
  set_up: bool


def runs_of(study: Study, entry: str) -> list[logs.RunKey]:
  """The runs of an entry that the command line asks for, seed by seed."""
  return [
    logs.RunKey(
      data,
      study.clock,
      entry,
      seed,
      CASES[data].target if study.target is None else study.target,
    )
    for seed in study.seeds
    for data in study.data
  ]


def job_of(study: Study, run: logs.RunKey) -> dict[str, Any]:
  """What `patched` is told of a run; see its `Job`."""
  case = CASES[run.data]
  counted = run.clock == 'counted'
  data = data_of(run.data)
  period = case.properties.get(
    'eval_period_time_sec', EVAL_SHARE * case.runtime
  )
  last = None
  if study.set_up:
    last = 1
  elif counted and run.data in (*REAL, *LARGER) and run.entry in STILL:
    every = round(period * case.step_hint / case.runtime)
    last = case.step_hint + every + 1
  return {
    'benchmark': str(study.benchmark),
    'entries': str(study.entries),
    'submission': run.entry,
    'workload': case.workload,
    'data': [data, str(study.folders[data])],
    'properties': {
      # A run ends when both targets are reached: here, the first.
      'validation_target_value': run.target,
      'test_target_value': math.inf if case.lower else 0.0,
      **({'eval_period_time_sec': period} if counted else {}),
      **case.properties,
      **(TIMED if not counted and run.data in REAL else {}),
    },
    'model': case.model,
    'batch_size': case.batch_size,
    'seconds_per_step': case.runtime / case.step_hint if counted else None,
    'data_dir': str(study.out / 'data' / data),
    'flags': [
      *(['--profile'] if study.set_up else []),
      *([f'--max_global_steps={last}'] if last else []),
      f'--experiment_dir={study.out}',
      f'--experiment_name={"_".join(map(str, run))}',
      f'--rng_seed={run.seed}',
      '--overwrite',
    ],
    'log': str(study.out / f'{"_".join(map(str, run))}.log'),
  }


def run_entry(study: Study, runs: list[logs.RunKey]) -> None:
  """Runs an entry in one process, and adds each run when it is done.

  Raises:
    RunFailed: if a run fails; what was done is kept.
  """
  own = study.entries / runs[0].entry / 'packages'
  paths = [str(own)] if own.exists() else []
  env = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  env['PYTHONPATH'] = os.pathsep.join(
    [*paths, *filter(None, [os.environ.get('PYTHONPATH')])]
  )
  if study.clock == 'counted' and not study.set_up:
    # No time passes while a program is compiled: seeds may share it.
    env['JAX_COMPILATION_CACHE_DIR'] = str(study.out / 'compiled')
  jobs = json.dumps([job_of(study, run) for run in runs])
  with subprocess.Popen(
    [sys.executable, '-m', f'{__package__}.patched', jobs],
    env=env,
    stdout=subprocess.PIPE,
    text=True,
  ) as process:
    assert process.stdout is not None
    for line in process.stdout:
      if not line.strip().isdigit():
        continue
      run = runs[int(line)]
      case = CASES[run.data]
      name = '_'.join(map(str, run))
      if study.set_up:
        print(
          *run, set_up_of((study.out / f'{name}.log').read_text()), flush=True
        )
        continue
      trial = study.out / name / f'{case.workload}_jax' / 'trial_1'
      points = points_of(trial, case.metric)
      if kept.is_kept(run):
        kept.keep(trial, run, registry.LOGS)
      logs.append(logs.FILE, run, points)
      steps = logs.steps_to(points, run.target, case.lower)
      print(*run, logs.steps_text(steps), flush=True)
  if process.returncode:
    raise RunFailed(
      f'{runs[0].entry} ended with status {process.returncode}; what it has '
      'finished is kept.'
    )


def train(study: Study, entries: Sequence[str]) -> None:
  """Runs what is missing, entry by entry.

  Raises:
    RunFailed: if a run fails; what was done is kept.
  """
  study.out.mkdir(parents=True, exist_ok=True)
  done = {} if study.set_up else logs.read()
  for entry in entries:
    missing = [run for run in runs_of(study, entry) if run not in done]
    if missing:
      run_entry(study, missing)

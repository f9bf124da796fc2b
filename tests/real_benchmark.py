"""The real benchmark, where a generation of it is installed; else a skip."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import algoperf_process
from reset_cycles.cli import handed_in
from reset_cycles.cli import main as cli

PACKAGES = ('algoperf', 'algorithmic_efficiency')
EXPERIMENT = """\
import dataclasses

from ..schedule_params import THESIS
from ..submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(THESIS, {}))
"""


def import_benchmark(name):
  """A module of whichever generation is importable; skips if none is."""
  for package in PACKAGES:
    try:
      return importlib.import_module(f'{package}.{name}')
    except ModuleNotFoundError as e:
      if e.name != package:
        raise
  pytest.skip(f'none of {", ".join(PACKAGES)} is installed')


def package_and_root():
  """The generation's package name and the folder of its runner."""
  spec = import_benchmark('spec')
  root = pathlib.Path(spec.__file__).parents[1]
  if not (root / 'submission_runner.py').exists():
    pytest.skip(f'{spec.__name__} is installed without submission_runner.py')
  return spec.__name__.split('.')[0], root


def is_current():
  """Whether the generation is main's (jit), not that of 2024 (pmap)."""
  return package_and_root()[0] == 'algoperf'


def copy_rivals(folder):
  """Copies the rivals beside a copy of what is handed in, which they need."""
  ignore = shutil.ignore_patterns('__pycache__')
  rivals = pathlib.Path('benchmarks') / 'rivals'
  shutil.copytree(handed_in.ROOT / rivals, folder / rivals, ignore=ignore)
  (folder / 'benchmarks' / '__init__.py').touch()


def copy_submission(folder, settings):
  """What is handed in, as `soft-reset export` writes it, and an experiment.

  Args:
    folder: where to; it becomes a root to import from.
    settings: of the experiment, as written in code; None for those in force.

  Returns:
    The path of the submission's module, relative to the folder.
  """
  assert cli.main(['export', f'--out={folder}']) == 0
  own = pathlib.Path('self_tuning') / 'soft_reset'
  if settings is None:
    return str(own / 'submission.py')
  experiment = own / 'experiments' / 'short.py'
  (folder / experiment).parent.mkdir()
  (folder / experiment).with_name('__init__.py').touch()
  (folder / experiment).write_text(EXPERIMENT.format(settings))
  return str(experiment)


def run(folder, settings, flags, rival=None, **changes):
  """Runs the benchmark in a process of its own, with our submission.

  Args:
    folder: for the copy of the submission, and the log.
    settings: of the experiment, as written in code; None for those in force.
    flags: of the benchmark's script; the submission's path is added.
    rival: name of the one that is run in its place.
    changes: to the job, see algoperf_process.

  Returns:
    Its exit status; what it printed is in folder/log.txt.
  """
  package, root = package_and_root()
  submissions = folder / 'submissions'
  shutil.rmtree(submissions, ignore_errors=True)
  path = copy_submission(submissions, settings)
  if rival is not None:
    copy_rivals(submissions / 'self_tuning' / 'soft_reset')
    path = f'self_tuning/soft_reset/benchmarks/rivals/{rival}.py'
  job = {
    'package': package,
    'roots': [str(root), str(submissions)],
    'submission': path,
    'num_devices': 1,
    'properties': {},
    'eval_every': None,
    'batch_size': None,
    'scripted': {},
    'feed_evaluations': False,
    'kill_at': None,
    'kill_after': None,
    'forget_nothing': False,
    'script': 'submission_runner.py',
    **changes,
    'flags': ['--framework=jax', f'--submission_path={path}', *flags],
  }
  with (folder / 'log.txt').open('a') as log:
    return subprocess.run(
      [sys.executable, algoperf_process.__file__, json.dumps(job)],
      # This session's device count is not the benchmark's.
      env={k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'},
      stdout=log,
      stderr=subprocess.STDOUT,
      check=False,
    ).returncode


def log(folder):
  """The end of what was printed, for the message of a failed assertion."""
  return (folder / 'log.txt').read_text()[-4000:]

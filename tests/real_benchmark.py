"""The real benchmark, where a generation of it is installed; else a skip."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import algoperf_process
from reset_cycles.cli import main as cli
from reset_cycles.engine.records import as_plain
from reset_cycles.schedule_params import ScheduleParams

PACKAGES = ('algoperf', 'algorithmic_efficiency')
# What the benchmark imports warns of itself.
MARKS = [pytest.mark.algoperf, pytest.mark.filterwarnings('default')]


def import_benchmark(name: str) -> Any:
  """A module of whichever generation is importable; skips if none is."""
  for package in PACKAGES:
    try:
      return importlib.import_module(f'{package}.{name}')
    except ModuleNotFoundError as e:
      if e.name != package:
        raise
  pytest.skip(f'none of {", ".join(PACKAGES)} is installed')


def package_and_root() -> tuple[str, pathlib.Path]:
  """The generation's package name and the folder of its runner."""
  spec = import_benchmark('spec')
  root = pathlib.Path(spec.__file__).parents[1]
  if not (root / 'submission_runner.py').exists():
    pytest.skip(f'{spec.__name__} is installed without submission_runner.py')
  return spec.__name__.split('.')[0], root


def is_current() -> bool:
  """Whether the generation is main's (jit), not that of 2024 (pmap)."""
  return package_and_root()[0] == 'algoperf'


def export(
  folder: pathlib.Path, settings: str | ScheduleParams, *flags: str
) -> pathlib.Path:
  """What `reset-cycles export` writes; returns submission.py's path below folder.

  Args:
    folder: where to; it becomes a root to import from.
    settings: by name, or the settings themselves.
    *flags: further ones of the command.
  """
  chosen = f'--settings={settings}'
  if isinstance(settings, ScheduleParams):
    file = folder.with_suffix('.json')
    file.write_text(json.dumps(as_plain(settings)))
    chosen = f'--settings={file}'
  flags = (f'--out={folder}', chosen, '--name=own', *flags)
  assert cli.main(['export', *flags]) == 0
  (path,) = folder.glob('*/own/submission.py')
  return path.relative_to(folder)


def run(
  folder: pathlib.Path,
  settings: str | ScheduleParams,
  flags: list[str],
  search_space: Any = None,
  **changes: Any,
) -> int:
  """Runs the benchmark in a process of its own, with an exported submission.

  Args:
    folder: for the submission, which a second run finds there, and the log.
    settings: by name, or the settings themselves.
    flags: of the benchmark's script; the submission's path is added, and that of
      the search space.
    search_space: what its file holds; the submission is then one for the
      external ruleset.
    **changes: to the job, see algoperf_process.

  Returns:
    Its exit status; what it printed is in folder/log.txt.
  """
  package, root = package_and_root()
  submissions = folder / 'submissions'
  place, export_flags = pathlib.Path('self_tuning', 'own'), []
  if search_space is not None:
    place = pathlib.Path('external_tuning', 'own')
    given = folder / 'space.json'
    given.write_text(json.dumps(search_space))
    export_flags = ['--ruleset=external', f'--tuning_search_space={given}']
    exported = submissions / place / 'tuning_search_space.json'
    flags = [*flags, f'--tuning_search_space={exported}']
  path = place / 'submission.py'
  if not submissions.exists():
    assert export(submissions, settings, *export_flags) == path
  job = {
    'package': package,
    'roots': [str(root), str(submissions)],
    'submission': str(path),
    'num_devices': 1,
    'properties': {},
    'eval_every': None,
    'batch_size': None,
    'scripted': {},
    'feed_evaluations': False,
    'kill_at': None,
    'mend_restore': False,
    'data': None,
    'real': None,
    'script': 'submission_runner.py',
    **changes,
    'flags': ['--framework=jax', f'--submission_path={path}', *flags],
  }
  # This session's device count is not the benchmark's. The current one's jax
  # reads it when it is imported.
  environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
  if package == 'algoperf':
    environment['JAX_NUM_CPU_DEVICES'] = str(job['num_devices'])
  with (folder / 'log.txt').open('a') as log:
    return subprocess.run(
      [sys.executable, algoperf_process.__file__, json.dumps(job)],
      env=environment,
      stdout=log,
      stderr=subprocess.STDOUT,
      check=False,
    ).returncode


def log(folder: pathlib.Path) -> str:
  """The end of what was printed, for the message of a failed assertion."""
  return (folder / 'log.txt').read_text()[-4000:]

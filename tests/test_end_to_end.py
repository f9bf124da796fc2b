"""The submission itself on `digits`, from the command line."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from helpers.run_files import assert_same_run
from reset_cycles.core.records import CYCLES, read_events

# 210 steps: three cycles of 70. No early switch, whatever the losses are.
EXPERIMENT = """
import dataclasses

from reset_cycles.schedule_params import THESIS
from reset_cycles.submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(
  dataclasses.replace(THESIS, budget_factor=0.1, early_switching=False)
)
"""


# As a user's CPU is; runs over several repeat up to rounding only before jax 0.5.
ONE_DEVICE = '--xla_force_host_platform_device_count=1'


def start(folder, *flags):
  """A process that trains; its output goes to a file."""
  (folder / '__init__.py').touch()
  (folder / 'experiment.py').write_text(EXPERIMENT)
  script = pathlib.Path(sys.executable).with_name('soft-reset')
  with (folder / 'output.txt').open('a') as output:
    return subprocess.Popen(
      [
        script,
        'run',
        '--workload=digits',
        f'--submission_path={folder}/experiment.py',
        f'--experiment_dir={folder}/runs',
        '--rng_seed=1',
        '--eval_every=10',
        *flags,
      ],
      env={**os.environ, 'XLA_FLAGS': ONE_DEVICE},
      stdout=output,
      stderr=subprocess.STDOUT,
    )


def wait_for_event(trial, event, process):
  """Until a row of an event is written, or the process has ended."""
  while process.poll() is None:
    if event in (row['event'] for row in read_events(trial / CYCLES)):
      return
    time.sleep(0.01)


@pytest.mark.parametrize('generation', ['jit', 'pmap'])
def test_killed_after_a_reset_and_resumed(tmp_path, generation):
  """Same boundaries, tau and rates in cycles.csv, same arrays at the end."""
  trials = {
    name: tmp_path / 'runs' / name / 'digits_jax' / 'trial_1'
    for name in ('whole', 'killed')
  }
  flags = (f'--generation={generation}', '--experiment_name=killed')
  process = start(tmp_path, *flags)
  wait_for_event(trials['killed'], 'reset', process)
  process.send_signal(signal.SIGKILL)
  assert process.wait() == -signal.SIGKILL, (
    tmp_path / 'output.txt'
  ).read_text()
  steps = [int(p.name.split('_')[1]) for p in trials['killed'].glob('check*_*')]
  assert 0 < max(steps) < 210
  assert start(tmp_path, *flags, '--resume_last_run').wait() == 0
  assert start(tmp_path, flags[0], '--experiment_name=whole').wait() == 0

  events = read_events(trials['whole'] / CYCLES)
  kinds = [(int(e['global_step']), e['event']) for e in events]
  resets = [kind for kind in kinds if kind[1] == 'reset']
  assert resets == [(70, 'reset'), (140, 'reset')]
  assert 0 < float(events[kinds.index((70, 'reset'))]['tau']) <= 1
  for name in ('schedule_params.json', 'lr_schedule.png', 'metric.png'):
    assert (trials['whole'] / name).stat().st_size > 0
  assert read_events(trials['killed'] / CYCLES) == events
  # measurements.csv also has the training loss of the step before each event;
  # a resumed run has not taken that step.
  assert_same_run(trials['killed'], trials['whole'], ['eval_measurements.csv'])

"""The submission itself on `digits`, from the command line."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

from helpers.run_files import assert_same_run
from reset_cycles.core.records import CYCLES, read_events

# 126 steps: three cycles of 42. No early switch, whatever the losses are.
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
  dataclasses.replace(THESIS, budget_factor=0.06, early_switching=False)
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
        *(script, 'run', '--workload=digits', '--rng_seed=1', '--eval_every=6'),
        f'--submission_path={folder}/experiment.py',
        f'--experiment_dir={folder}/runs',
        *('--eval_splits=validation', *flags),
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


def test_killed_after_a_reset_and_resumed(tmp_path):
  """Same boundaries, tau and rates in cycles.csv, same arrays at the end."""
  trials = {
    name: tmp_path / 'runs' / name / 'digits_jax' / 'trial_1'
    for name in ('whole', 'killed')
  }
  process = start(tmp_path, '--experiment_name=killed')
  wait_for_event(trials['killed'], 'reset', process)
  process.kill()
  said = (tmp_path / 'output.txt').read_text()
  assert process.wait() == -signal.SIGKILL, said
  steps = [int(p.name.split('_')[1]) for p in trials['killed'].glob('check*_*')]
  assert 0 < max(steps) < 126
  resumed = start(tmp_path, '--experiment_name=killed', '--resume_last_run')
  assert resumed.wait() == 0
  assert start(tmp_path, '--experiment_name=whole').wait() == 0

  events = read_events(trials['whole'] / CYCLES)
  kinds = [(int(e['global_step']), e['event']) for e in events]
  resets = [kind for kind in kinds if kind[1] == 'reset']
  assert resets == [(42, 'reset'), (84, 'reset')]
  assert 0 < float(events[kinds.index((42, 'reset'))]['tau']) <= 1
  for name in ('schedule_params.json', 'lr_schedule.png', 'metric.png'):
    assert (trials['whole'] / name).stat().st_size > 0
  assert read_events(trials['killed'] / CYCLES) == events
  # measurements.csv also has the training loss of the step before each event;
  # a resumed run has not taken that step.
  assert_same_run(trials['killed'], trials['whole'], ['eval_measurements.csv'])

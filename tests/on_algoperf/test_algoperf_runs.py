"""submission_runner.py itself by counted steps, on data that are made up.

Evaluations come every so many steps with the results that are written here, so
what a run does depends on no clock and can be computed by hand. A run takes
minutes.
"""

import dataclasses
import json
import signal

import pytest

import real_benchmark
from reset_cycles.core.schedules import Cycle
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.engine.records import as_plain, read_events
from reset_cycles.engine.tuned import tuned
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS

pytestmark = real_benchmark.MARKS

# A fresh model at the first step, and two cycles up to step 36. Evaluations see
# the average of the optimizer that is handed in.
SETTINGS = dataclasses.replace(
  THESIS,
  cycles=(Cycle(0.03),) * 2,
  optimizer=SCHEDULE_PARAMS.optimizer,
  budget_factor=1.0,
  repeat=True,
  relative_peak=dataclasses.replace(SCHEDULE_PARAMS.relative_peak, share=0.06),
  switching=SmoothedLossRule(lam=1.0, eps1=0.5),
)
STEP_HINT, STOP, EVERY, TARGET = 36, 40, 4, 1.5
# Steps -> loss and metric, in place of an evaluation's own.
SCRIPT = {
  1: (4.0, 0.1),
  4: (3.0, 0.2),
  8: (1.6, 0.3),
  12: (2.5, 0.75),  # 0.9 >= eps1 above the last one: the cycle is abandoned
  16: (2.0, 0.5),
  20: (1.5, 0.6),
  24: (1.4, 0.6),
  28: (1.2, 0.7),
  32: (1.0, 0.7),
  36: (0.9, 0.75),  # the cycle ends here, half of the way from its target
  40: (0.8, 0.9),
}
# (step, event, reason, mode of a reset, its tau, factor on a cycle's peak). The
# chain's second cycle is repeated.
TAPE = [
  (0, 'cycle_start', '', '', '', 1.0),
  (12, 'abandon', 'loss rises', '', '', ''),
  (12, 'reset', 'early', 'SoftReset', 0.5, ''),
  (12, 'cycle_start', '', '', '', 1.0),
  (36, 'reset', 'scheduled', 'SoftReset', 0.5, ''),
  (36, 'cycle_start', '', '', '', 1.0),
]
# Workload -> name of its metric, sizes of what is evaluated, batch size.
WORKLOADS = {
  'mnist': ('accuracy', 1000, None),
  'ogbg': ('mean_average_precision', 256, 8),
}


def train(folder, workload, *flags, ruleset='self', **changes):
  """Runs the benchmark; returns its exit status and each trial's folder."""
  metric, size, batch_size = WORKLOADS[workload]
  sizes = ('validation', 'test', 'eval_train')
  properties = {f'num_{split}_examples': size for split in sizes}
  if workload == 'mnist':  # its splits share a file of 60,000
    properties['num_train_examples'] = 59_000
  status = real_benchmark.run(
    folder,
    SETTINGS,
    [
      f'--workload={workload}',
      f'--tuning_ruleset={ruleset}',
      f'--experiment_dir={folder}/runs',
      '--experiment_name=run',
      '--rng_seed=3',
      f'--max_global_steps={STOP}',
      *flags,
    ],
    properties={
      **properties,
      'step_hint': STEP_HINT,
      'max_allowed_runtime_sec': 1e6,
      'eval_batch_size': size,
      'validation_target_value': TARGET,  # out of reach
      'test_target_value': TARGET,
    },
    eval_every=EVERY,
    batch_size=batch_size,
    data=workload,
    scripted={
      step: {'validation/loss': loss, f'validation/{metric}': value}
      for step, (loss, value) in SCRIPT.items()
    },
    **changes,
  )
  trials = (folder / 'runs' / 'run' / f'{workload}_jax').glob('trial_*')
  return status, sorted(trials)


def assert_tape(trial):
  """The run is the one that is written above, to its last step.

  Returns the factor on the peak: twice the matrices' size, at a share of .06.
  """
  events = read_events(trial / 'cycles.csv')
  # On top of that of the matrices' size.
  first = float(events[0]['rate_factor'])
  assert 1.0 < first < 3.0
  found = [
    (
      int(e['global_step']),
      e['event'],
      e['reason'],
      e['reset'],
      e['tau'] and pytest.approx(float(e['tau'])),
      e['event'] == 'cycle_start' and float(e['rate_factor']) / first or '',
    )
    for e in events
    if e['event'] not in ('evaluation', 'clock')
  ]
  assert found == TAPE
  seen = [e for e in events if e['event'] == 'evaluation']
  assert [
    (
      int(e['metric_step']),
      (float(e['loss']), pytest.approx(float(e['metric']))),
    )
    for e in seen
  ] == [(step, result) for step, result in SCRIPT.items() if step < STOP]
  return first


@pytest.mark.parametrize('workload', WORKLOADS)
def test_an_abandoned_cycle_and_soft_resets(tmp_path, workload):
  status, trials = train(tmp_path, workload, '--save_checkpoints=False')
  assert status == 0, real_benchmark.log(tmp_path)
  assert_tape(*trials)


# The second has twice the peak, which changes nothing of the tape.
POINTS = [
  {
    'relative_peak__share': 0.04,
    'alpha': 0.25,
    'one_minus_beta1': 0.1,
    'weight_decay': 0.02,
    'dropout_rate': 0.0,
    'label_smoothing': 0.0,
  },
  {
    'relative_peak__share': 0.16,
    'alpha': 0.75,
    'one_minus_beta1': 0.05,
    'weight_decay': 0.2,
    'dropout_rate': 0.1,
    'label_smoothing': 0.2,
  },
]


def test_two_trials_under_the_external_ruleset(tmp_path):
  """In one process, on one workload object: each is a run of its own."""
  status, trials = train(
    tmp_path,
    'mnist',
    '--num_tuning_trials=2',
    '--save_checkpoints=False',
    ruleset='external',
    search_space=POINTS,
  )
  assert status == 0, real_benchmark.log(tmp_path)
  assert [trial.name for trial in trials] == ['trial_1', 'trial_2']
  for trial, point in zip(trials, POINTS):
    # The benchmark's own file, and that of the settings.
    assert json.loads((trial / 'hparams.json').read_text()) == point
    written = json.loads((trial / 'schedule_params.json').read_text())
    expected = json.loads(json.dumps(as_plain(tuned(SETTINGS, point))))
    assert written['schedule_params'] == expected
  # Both begin with the same model, since the runner has one seed.
  one, two = map(assert_tape, trials)
  assert two == pytest.approx(2 * one)


def test_killed_and_resumed(tmp_path):
  """The same run, killed two steps after the checkpoint of step 20."""
  status, _ = train(tmp_path, 'mnist', kill_at=22)
  assert status == -signal.SIGKILL, real_benchmark.log(tmp_path)
  # A run that began anew would be killed again. The current benchmark's own
  # restore fails for every submission, with checkpoints that hold all it needs.
  status, trials = train(
    tmp_path,
    'mnist',
    '--resume_last_run',
    kill_at=12,
    mend_restore=real_benchmark.is_current(),
  )
  assert status == 0, real_benchmark.log(tmp_path)
  assert_tape(*trials)  # no row is there twice

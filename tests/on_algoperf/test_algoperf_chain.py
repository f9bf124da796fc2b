"""Chains of different settings under submission_runner.py, by the clock.

Each run takes the minute of its budget. Steps per second are the machine's own,
so that what is checked is the order of events and what they have in common. A
machine that is too slow or busy for that is found out after the run, and the
test skipped.
"""

from __future__ import annotations

import csv
import itertools
import json
import signal

import pytest

import real_benchmark
from reset_cycles.cli import main as cli
from reset_cycles.schedule_params import SCHEDULE_PARAMS, ScheduleParams
from reset_cycles.settings.named import name_of
from reset_cycles.training.events import read_events

pytestmark = [
  pytest.mark.algoperf,
  pytest.mark.filterwarnings('default'),
]

BUDGET = 60.0  # seconds; the ruleset's factor is in it
PERIOD = 1
PROPERTIES = {
  'step_hint': 40_000,  # more than the budget has room for
  'eval_period_time_sec': PERIOD,
  'validation_target_value': 1.5,  # out of reach
  'test_target_value': 1.5,
  'eval_batch_size': 1000,
  'num_train_examples': 59_000,
  'num_eval_train_examples': 1000,
  'num_validation_examples': 1000,
  'num_test_examples': 1000,
}
NADAMW = {
  'optimizer': 'nadamw',
  'averaging': {
    **{'name': 'ema', 'span': 0.002, 'distance': 0.0005},
    'choice': 'alternate',
  },
}
NESTEROV = {
  'optimizer': 'nesterov',
  'learning_rate': 0.01,
  'weight_decay': 0.0,
  'averaging': {'name': 'lawa', 'k': 3, 'distance': 0.0005},
}
# Learns nothing, and is left when a third of it is over.
HOPELESS = {'learning_rate': 1e-9, 'start_from': 'fresh'}
FLOOR = {'name': 'floor', 'shares': (0.3,), 'least': (0.15,)}


@pytest.fixture(scope='module')
def mnist(tmp_path_factory):
  """A folder of data that serves both generations."""
  pytest.importorskip('tensorflow_datasets')
  real_benchmark.package_and_root()
  folder = tmp_path_factory.mktemp('mnist') / 'data'
  assert cli.main(['smoke-data', '--workload=mnist', f'--out={folder}']) == 0
  return folder


def train(folder, data, settings, *flags, **changes):
  """Runs the benchmark; returns (exit status, folder of the trial).

  Checkpoints are written only where one is needed: those of the current
  benchmark may take longer than the period here, so that another evaluation
  would be due after the next step.
  """
  is_to_be_killed = 'kill_after' in changes or '--resume_last_run' in flags
  factor = 1.5 if real_benchmark.is_current() else 3.0
  status = real_benchmark.run(
    folder,
    settings,
    [
      '--workload=mnist',
      '--tuning_ruleset=self',
      f'--data_dir={data}',
      f'--experiment_dir={folder}/runs',
      '--experiment_name=run',
      '--rng_seed=3',
      f'--save_checkpoints={is_to_be_killed}',
      *flags,
    ],
    properties={**PROPERTIES, 'max_allowed_runtime_sec': BUDGET / factor},
    **changes,
  )
  return status, folder / 'runs' / 'run' / 'mnist_jax' / 'trial_1'


def chain(cycles, policy):
  """Settings of an experiment, as written in code."""
  return (
    f'cycles={cycles!r}, policy={policy!r}, switching={FLOOR!r}, wait=True, '
    "horizon='time', budget_factor=1.0"
  )


def measurements(trial):
  """Steps -> accumulated submission time, of all evaluations."""
  with (trial / 'eval_measurements.csv').open(newline='') as lines:
    return {
      int(float(row['global_step'])): float(row['accumulated_submission_time'])
      for row in csv.DictReader(lines)
    }


def skip_if_too_slow(trial):
  """Skips where the machine had no time for half of the evaluations.

  A busy one may take a few dozen steps in the whole budget. A setting of the
  list is then left, or never begun, for want of evaluations. The same order of
  events without a clock is in test_algoperf_steps.py.
  """
  count, periods = len(measurements(trial)), BUDGET / PERIOD
  if count < periods / 2:
    pytest.skip(f'{count} evaluations in {periods:.0f} periods: too slow')


def outline(events):
  """Which settings came in which order, and from what; without waiting."""
  what = {
    'cycle_start': lambda e: int(e['setting']),
    'reset': lambda e: e['mode'],
    'switch': lambda e: e['reason'],
    'pause': lambda e: 'pause',
  }
  return [what[e['event']](e) for e in events if e['event'] in what]


def of_cycles(events, name):
  """The events of a kind, by the number of their cycle."""
  found = [e for e in events if e['event'] == name]
  return {
    cycle: list(group)
    for cycle, group in itertools.groupby(found, lambda e: int(e['cycle']))
  }


def assert_resets_waited(events):
  """For the evaluation of what the cycle has come to, or as long as they may."""
  waits = of_cycles(events, 'wait')
  resets = [e for e in events if e['reason'] == 'scheduled']
  assert resets
  for event in resets:
    waited = waits.get(int(event['cycle']) - 1)
    is_given_up = waited and event['global_step'] == waited[-1]['cycle_end']
    assert event['metric_step'] == event['global_step'] or is_given_up


def assert_annealed_in_time(trial, events):
  """The last evaluations of the budget have seen a model at rate 0."""
  seconds = measurements(trial)
  annealed = [
    seconds[int(e['metric_step'])]
    for e in events
    if e['event'] == 'evaluation' and float(e['learning_rate']) == 0
  ]
  assert BUDGET - 6 * PERIOD < max(annealed) < BUDGET
  assert BUDGET - 3 * PERIOD < max(seconds.values()) < BUDGET + 3 * PERIOD


def assert_a_list_and_further_cycles(trial):
  """Two settings to their ends, one that is left, and more of the best."""
  events = read_events(trial)
  found = outline(events)
  assert found[:7] == [1, 'soft', 2, 'full', 3, 'behind the floor', 'best']
  assert set(found[7::2]) <= {1, 2}
  assert set(found[8::2]) <= {'best'}
  assert_resets_waited(events)
  assert_annealed_in_time(trial, events)
  resets = of_cycles(events, 'reset')
  metric, tau = (float(resets[2][0][name]) for name in ('metric', 'tau'))
  assert 0 < tau == pytest.approx(1 - metric / 1.5)
  notes = [resets[cycle][0]['note'] for cycle in (2, 3)]
  assert notes == ['nesterov begins', 'adamw begins']
  seen = {
    cycle: [e['weights'] for e in group]
    for cycle, group in of_cycles(events, 'evaluation').items()
  }
  assert set(seen[1]) == {'raw', 'averaged'}
  assert seen[2].count('averaged') > len(seen[2]) / 2
  assert set(seen[3]) == {'raw'}


LIST = chain([NADAMW, NESTEROV, HOPELESS], 'queue')


def test_a_list_of_settings_by_the_clock(tmp_path, mnist):
  status, trial = train(tmp_path, mnist, LIST)
  assert status == 0, real_benchmark.log(tmp_path)
  skip_if_too_slow(trial)
  assert_a_list_and_further_cycles(trial)


def test_the_same_resumed(tmp_path, mnist):
  """Killed in its first cycle, whose running average is in the checkpoint."""
  if real_benchmark.is_current():
    pytest.skip('its restore fails: see test_algoperf_runs.py')
  status, trial = train(tmp_path, mnist, LIST, kill_after=8)
  assert status == -signal.SIGKILL, real_benchmark.log(tmp_path)
  before = read_events(trial)
  assert outline(before) == [1]
  status, _ = train(tmp_path, mnist, LIST, '--resume_last_run')
  assert status == 0, real_benchmark.log(tmp_path)
  skip_if_too_slow(trial)
  events = read_events(trial)
  assert events[: len(before)] == before
  assert_a_list_and_further_cycles(trial)


def test_a_race_by_the_clock(tmp_path, mnist):
  """Three probes, the best to its end, and then those that were paused."""
  cycles = [HOPELESS, NADAMW, NESTEROV]
  policy = {'name': 'race', 'probes': 3, 'rounds': (0.1,)}
  status, trial = train(tmp_path, mnist, chain(cycles, policy))
  assert status == 0, real_benchmark.log(tmp_path)
  skip_if_too_slow(trial)
  events = read_events(trial)
  found = outline(events)
  probes = [1, 'pause', 'full', 2, 'pause', 'full', 3, 'pause']
  assert found[:9] == [*probes, 'paused']
  starts = of_cycles(events, 'cycle_start')
  pauses = [e for e in events if e['event'] == 'pause']
  for event in pauses:  # compared by an evaluation of its own probe
    begun = int(starts[int(event['cycle'])][0]['global_step'])
    assert begun < int(event['metric_step']) <= int(event['global_step'])
  ways = {int(e['setting']): float(e['metric']) for e in pauses}
  best = max(ways, key=ways.get)
  assert best in (2, 3)
  assert found[9] == best
  # It goes on where it was, not at the start of its cycle.
  assert float(starts[4][0]['anchor_local']) > 0
  assert_resets_waited(events)
  assert_annealed_in_time(trial, events)


def test_the_settings_in_force(tmp_path, mnist):
  """What is handed in, unchanged: it uses the time that it has."""
  status, trial = train(tmp_path, mnist, None)
  assert status == 0, real_benchmark.log(tmp_path)
  settings = json.loads((trial / 'schedule_params.json').read_text())
  found = ScheduleParams.from_dict(settings['schedule_params'])
  assert found == SCHEDULE_PARAMS
  skip_if_too_slow(trial)
  events = read_events(trial)
  seen = {
    int(e['metric_step']): float(e['metric'])
    for e in events
    if e['event'] == 'evaluation'
  }
  seconds = measurements(trial)
  assert set(seen) <= set(seconds)
  assert BUDGET - 3 * PERIOD < max(seconds.values()) < BUDGET + 3 * PERIOD
  assert max(seen) >= sorted(seconds)[-2]
  # Laid over the time: no cycle is planned beyond what the budget has room for.
  if name_of(SCHEDULE_PARAMS.horizon) == 'time':
    planned = [int(e['cycle_end']) for e in events if e['event'] == 'clock']
    assert min(planned) < max(seconds) < PROPERTIES['step_hint']
  assert max(seen.values()) > 0.5

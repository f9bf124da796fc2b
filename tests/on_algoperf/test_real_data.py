"""v0.5.0's submission_runner.py on real data: through a soft reset, and killed.

REAL_DATA names a folder with the files of Tox21 and Multi30k that
research/real_runner/README.md lists. A test takes up to ten minutes on two busy
cores.
"""

import dataclasses
import importlib.util
import itertools
import os
import pathlib
import signal

import numpy as np
import pytest

import real_benchmark
from reset_cycles.engine.records import read_events
from reset_cycles.mini_algoperf import files
from reset_cycles.research.real_runner import cases, patched
from reset_cycles.schedule_params import MUON

pytestmark = real_benchmark.MARKS
# In so few steps no rule would expect the target.
SETTINGS = dataclasses.replace(MUON, early_switching=False)
HINT, STOP, EVERY, KILL = 120, 130, 10, 75


def real_data(name):
  """The folder of real data; skips where a case cannot be run."""
  if real_benchmark.is_current():
    pytest.skip(
      'real_runner is for the current benchmark, this test for v0.5.0'
    )
  if not (folder := os.environ.get('REAL_DATA')):
    pytest.skip('REAL_DATA names no folder with Tox21 and Multi30k')
  missing = [m for m in ('rdkit', 'ogb') if not importlib.util.find_spec(m)]
  if name == 'tox21' and missing:
    pytest.skip(f"Tox21's features need {' and '.join(missing)}")
  return pathlib.Path(folder)


def train(folder, name, data, *flags, **changes):
  """Runs v0.5.0's runner; its exit status and the trial's folder."""
  case = cases.CASES[name]
  properties = {
    **case.properties,
    'step_hint': HINT,
    'max_allowed_runtime_sec': 1e6,
    'validation_target_value': case.target,
    'test_target_value': 1e9,  # out of reach: a run is not over before STOP
  }
  if name == 'tox21':
    properties['hidden_dims'] = (64,)  # JSON has no tuples; the model wants one
  status = real_benchmark.run(
    folder,
    SETTINGS,
    [
      f'--workload={case.workload}',
      '--tuning_ruleset=self',
      f'--experiment_dir={folder}/runs',
      '--experiment_name=run',
      '--rng_seed=3',
      f'--max_global_steps={STOP}',
      f'--data_dir={folder}/pieces',
      *flags,
    ],
    properties=properties,
    eval_every=EVERY,
    batch_size=case.batch_size,
    data=case.workload,
    real=[name, str(data)],
    **changes,
  )
  trial = folder / 'runs' / 'run' / f'{case.workload}_jax' / 'trial_1'
  return status, trial


def story(trial):
  """What happened and when, but for the clock, which goes by seconds."""
  return [
    (int(e['global_step']), e['event'], e['cycle'], e['loss'], e['tau'])
    for e in read_events(trial / 'cycles.csv')
    if e['event'] != 'clock'
  ]


def test_graphs_come_in_the_order_of_a_data_set():
  """TensorFlow shuffles indices as it would shuffle the examples."""
  tf = pytest.importorskip('tensorflow')
  fields = {'num': np.arange(50)}

  def first(examples, value):
    shuffled = examples.shuffle(seed=3, buffer_size=16).repeat()
    return [value(each['num']) for each in itertools.islice(shuffled, 120)]

  rows = [{'num': number} for number in fields['num']]
  own = patched.Examples(rows, tf.data.Dataset.range(50))
  expected = tf.data.Dataset.from_tensor_slices(fields)
  found = first(own, lambda value: int(value._numpy()))
  assert found == first(expected, lambda value: int(value.numpy()))
  assert found[:50] != sorted(found[:50])


@pytest.mark.parametrize('name', cases.REAL)
def test_a_killed_run_goes_on_through_its_soft_resets(tmp_path, name):
  data = real_data(name)
  status, trial = train(tmp_path, name, data, kill_at=KILL)
  assert status == -signal.SIGKILL, real_benchmark.log(tmp_path)
  before = story(trial)
  # A run that began anew would be killed again.
  status, trial = train(tmp_path, name, data, '--resume_last_run', kill_at=12)
  assert status == 0, real_benchmark.log(tmp_path)
  after = story(trial)
  assert after[: len(before)] == before
  resets = [e for e in after if e[1] == 'reset' and 0.0 < float(e[4]) < 1.0]
  assert resets
  rows = files.read_rows(trial / 'eval_measurements.csv')
  steps = [int(float(row['global_step'])) for row in rows]
  # The run ends with an evaluation.
  assert sorted({*steps}) == [1, *range(EVERY, STOP, EVERY), STOP]
  metric = cases.CASES[name].metric
  found = [float(row[f'validation/{metric}']) for row in rows]
  losses = [float(row['validation/loss']) for row in rows]
  assert max(found) > found[0]
  assert min(losses) < losses[0] - 0.1

"""The parts that docs/extending.md adds, each as one new file.

Nothing else of the submission is touched: names, parameters, checks, JSON,
search space and columns of cycles.csv follow from these files.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys

import numpy as np
import pytest

import documents
import tiny
from reset_cycles.cli import handed_in

NEW_FILES = documents.files_of_blocks(handed_in.ROOT / 'docs' / 'extending.md')


@pytest.fixture(scope='module')
def extended(tmp_path_factory):
  """The shipped files and new ones, imported under a name of their own."""
  folder = handed_in.copy(
    tmp_path_factory.mktemp('extended'), 'self', 'extended_submission'
  )
  for name, text in NEW_FILES.items():
    assert not (folder / name).exists()
    (folder / name).write_text(text)
  sys.path.insert(0, str(folder.parent))
  yield importlib.import_module('extended_submission.submission')
  sys.path.remove(str(folder.parent))
  for name in [m for m in sys.modules if m.startswith('extended_submission')]:
    del sys.modules[name]


def params_of(extended, **changes):
  return extended.ScheduleParams(
    **{
      'decays': ({'name': 'plateau', 'height': 0.25},) * 3,
      'warmups': ('none',) * 3,
      'switching': {'name': 'patience', 'evaluations': 2},
      'optimizer': 'heavy_ball',
      **changes,
    }
  )


def test_they_are_read_checked_and_written(extended):
  params = params_of(extended)
  text = params.to_json()
  assert json.loads(text)['switching'] == {'name': 'patience', 'evaluations': 2}
  assert extended.ScheduleParams.from_json(text) == params
  changed = params.override({'switching_evaluations': 5})
  assert dict(changed.switching.parameters) == {'evaluations': 5}
  with pytest.raises(
    ValueError, match='switching.evaluations=0: .* at least 1'
  ):
    params.override({'switching_evaluations': 0})
  with pytest.raises(ValueError, match=r'Did you mean plateau\?'):
    params_of(extended, decays=('platau',) * 3)
  with pytest.raises(ValueError, match='optimizer.* heavy_ball'):
    params_of(extended, optimizer='sgd')


def test_they_run(extended, tmp_path, monkeypatch):
  records = importlib.import_module('extended_submission.training.records')
  monkeypatch.setattr(records, 'find_folder', lambda hyperparameters: tmp_path)
  # 12 steps in cycles of 4; the second cycle is left at its third evaluation.
  metrics = {2: 0.5, 5: 0.4, 6: 0.3, 7: 0.2, 10: 0.6}
  driver = tiny.Driver(
    extended.make_submission(params_of(extended)),
    tiny.TinyWorkload(6),
    {step: (1.0, metric) for step, metric in metrics.items()},
  )
  start = np.asarray(driver.params['kernel'])
  assert not driver.run(until=12)
  assert np.isfinite(np.asarray(driver.params['kernel'])).all()
  assert not np.array_equal(np.asarray(driver.params['kernel']), start)
  with (tmp_path / 'cycles.csv').open(newline='') as lines:
    rows = list(csv.DictReader(lines))
  seen = [r for r in rows if r['event'] == 'evaluation']
  assert [r['waited'] for r in seen] == ['0', '0', '1', '2', '0']
  assert [r['reason'] for r in rows if r['event'] == 'switch'] == [
    'no progress'
  ]
  # height 0.25 from the middle of a cycle on.
  peak = 0.0017486387539278373
  rates = {r['global_step']: float(r['learning_rate']) for r in rows}
  np.testing.assert_allclose(rates['0'], peak, rtol=1e-6)
  np.testing.assert_allclose(rates['2'], 0.25 * peak, rtol=1e-6)


def part(extended, field, setting):
  module = importlib.import_module('extended_submission.schedule_params')
  registry = module.PARTS[field]
  return registry.make(registry.read(field, setting))


def test_there_is_a_file_for_every_kind_of_part(extended):
  folders = {name.rpartition('/')[0] for name in NEW_FILES}
  module = importlib.import_module('extended_submission.schedule_params')
  assert len(folders) == len(NEW_FILES) == 1 + len(module.PARTS)


def test_the_goal(extended):
  goal = part(extended, 'goal', 'steady')
  state = importlib.import_module('extended_submission.control.state')
  target = state.Target('accuracy', 0.8, True)
  metrics = [goal.metric(target, 0.2, share) for share in (0.0, 0.5, 1.0)]
  np.testing.assert_allclose(metrics, [0.2, 0.5, 0.8])


def test_the_horizon(extended):
  horizons = importlib.import_module('extended_submission.control.horizons')
  horizon = part(extended, 'horizon', {'name': 'evaluations', 'number': 4})
  state, found = horizon.initial, []
  for step in (10, 20, 36, 40):
    timing = horizons.Timing(step, float('nan'), 99)
    state, end = horizon.observe(state, timing)
    found.append(end)
  assert found == [40, 40, 48, 40]


def run_with(extended, averaging):
  """16 steps in cycles of 4, each evaluated: the run, and what was evaluated."""
  params = params_of(
    extended,
    early_switching=False,
    reset_mode='cyclic',
    policy={'name': 'cool_down', 'scale': 0.25},
    averaging=averaging,
  )
  driver = tiny.Driver(
    extended.make_submission(params),
    tiny.TinyWorkload(6),
    {step: (1.0, 0.5) for step in range(1, 17)},
  )
  driver.evaluated = {}
  assert not driver.run(until=16)
  kernels = {step: tree['kernel'] for step, tree in driver.evaluated.items()}
  return driver.optimizer_state[1], kernels


def test_policy_and_average_run(extended):
  run, raw = run_with(extended, 'none')
  control = run.control
  assert (control.cycle, control.number, control.scale) == (2, 4, 0.25)
  assert (control.start, control.cycle_end) == (12, 16)
  _, averaged = run_with(extended, {'name': 'polyak', 'distance': 0.1})
  # A snapshot is taken before each step but a cycle's first; two are needed.
  for first in (1, 5, 9, 13):
    for step in (first, first + 1):
      # On jax 0.4.13 sums over devices come in no fixed order.
      np.testing.assert_allclose(averaged[step], raw[step], rtol=1e-6)
    for step in (first + 2, first + 3):
      mean = np.mean([raw[i] for i in range(first, step)], axis=0)
      np.testing.assert_allclose(averaged[step], mean, rtol=1e-5)

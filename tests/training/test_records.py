"""Nothing that a run writes can end it."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import shutil

import pytest

import tiny
from reset_cycles import submission
from reset_cycles.schedule_params import THESIS
from reset_cycles.training import configuration, events, picture, records
from reset_cycles.training.records import Records
from runs import (
  GENERATIONS,
  PARAMS,
  assert_equal_trees,
  host,
  new_driver,
)


@pytest.fixture
def said(caplog):
  caplog.set_level('WARNING', logger='absl')
  return lambda: [r.getMessage() for r in caplog.records]


def test_what_is_written(tmp_path, said):
  files = Records(tmp_path)
  files.write_settings(300, THESIS, [])
  files.start(0, ['case1'])
  files.add_events([{'event': 'hold', 'case1': 1}], 7, None, {})
  assert sorted(path.name for path in tmp_path.iterdir()) == [
    'cycles.csv',
    'lr_schedule.png',
    'schedule_params.json',
  ]
  found = configuration.read_configuration(tmp_path)
  assert found == (300, THESIS)
  (row,) = events.read_events(tmp_path)
  assert (row['global_step'], row['event'], row['case1']) == ('7', 'hold', '1')
  assert said() == []


def test_without_a_folder_the_logger_has_it_all():
  calls = []

  class Logger:
    def append_scalar_metrics(self, metrics, global_step):
      calls.append((metrics, global_step))

  files = Records(None)
  files.write_settings(300, THESIS, [])
  files.start(0, [])
  files.add_events([{'event': 'hold', 'cycle': 2}], 7, Logger(), {'loss': 1.0})
  files.draw_rates(Logger(), float, 0, 7, 7)
  assert calls == [({'cycle': 2.0, 'loss': 1.0}, 7)]


def test_settings_of_a_run_that_has_begun(tmp_path, said):
  files = Records(tmp_path)
  assert files.begun_with() is None
  files.write_settings(300, THESIS, [])
  assert files.begun_with() is None  # it would start anew
  (tmp_path / 'checkpoint_5').touch()
  assert files.begun_with() == (300, THESIS)
  (tmp_path / configuration.CONFIGURATION).write_text('{')
  assert files.begun_with() is None
  assert [text.split(':')[0] for text in said()] == [
    'Reading schedule_params.json failed'
  ]
  assert Records(None).begun_with() is None


def test_no_folder_known_is_said(said, monkeypatch):
  monkeypatch.setattr(records, 'find_folder', lambda hyperparameters: None)
  assert Records.of_trial(None).folder is None
  assert said() == [
    'No experiment folder was found: training goes on, nothing is saved.'
  ]


def test_a_folder_that_cannot_be_looked_for(said, monkeypatch):
  def forbidden(hyperparameters):
    raise PermissionError(13, 'Permission denied')

  monkeypatch.setattr(records, 'find_folder', forbidden)
  assert Records.of_trial(None).folder is None
  first, second = said()
  assert first.startswith("Finding the run's folder failed: PermissionError")
  assert second.startswith('No experiment folder was found')


# Whole runs: 12 steps with an early switch, two resets and a finish.


def no_room(*args, **kwargs):
  raise OSError(28, 'No space left on device')


def fill_the_disk(folder, monkeypatch):
  """Every opening of a file for writing, and every write to a new one, fails."""
  real_open = pathlib.Path.open

  def refuse(self, mode='r', *args, **kwargs):
    if 'r' not in mode:
      no_room()
    return real_open(self, mode, *args, **kwargs)

  monkeypatch.setattr(pathlib.Path, 'open', refuse)
  monkeypatch.setattr(pathlib.Path, 'write_bytes', no_room)


def remove_the_folder(folder, monkeypatch):
  shutil.rmtree(folder)


def put_a_file_in_its_place(folder, monkeypatch):
  shutil.rmtree(folder)
  folder.write_text('in the way')


def put_a_folder_in_the_place_of_the_file(folder, monkeypatch):
  (folder / 'cycles.csv').unlink(missing_ok=True)
  (folder / 'cycles.csv').mkdir()


FAULTS = {
  'full disk': fill_the_disk,
  'no folder': remove_the_folder,
  'a file for the folder': put_a_file_in_its_place,
  'a folder for the file': put_a_folder_in_the_place_of_the_file,
}


@pytest.fixture(scope='module')
def undisturbed():
  driver = new_driver()
  assert driver.run()
  return host((driver.params, driver.optimizer_state[0]))


@pytest.mark.parametrize('at_step', [0, 2, 12])
@pytest.mark.parametrize('fault', FAULTS)
def test_a_run_goes_on_where_nothing_can_be_written(
  folder, monkeypatch, said, undisturbed, fault, at_step
):
  driver = new_driver()
  driver.run(until=at_step)
  FAULTS[fault](folder, monkeypatch)
  assert driver.run()  # TrainingCompleteError, and no other
  assert driver.global_step == 12
  assert_equal_trees((driver.params, driver.optimizer_state[0]), undisturbed)
  assert len(said()) == 1
  assert said()[0].startswith('Writing cycles.csv failed: ')
  assert said()[0].endswith('The run goes on; this is logged only once.')


@pytest.mark.parametrize('fault', ['full disk', 'no folder'])
def test_a_run_starts_where_nothing_can_be_written(
  folder, monkeypatch, said, fault
):
  FAULTS[fault](folder, monkeypatch)
  assert new_driver().run()
  assert [text.split(' failed')[0] for text in said()] == [
    'Writing schedule_params.json',
    'Drawing lr_schedule.png',
    'Writing cycles.csv',
  ]


def test_an_old_file_that_is_no_table(folder, said):
  (folder / 'cycles.csv').write_bytes(b'\xff\xfe\n\xff\n')
  assert new_driver().run()
  assert [text.split(':')[0] for text in said()] == [
    'Writing cycles.csv failed'
  ]


def test_a_picture_that_cannot_be_drawn(folder, monkeypatch, said):
  def broken(*args):
    raise RuntimeError('no font')

  monkeypatch.setattr(picture, 'draw_plan', broken)
  assert new_driver().run()
  assert said() == [
    'Drawing lr_schedule.png failed: RuntimeError: no font. The run goes on; '
    'this is logged only once.'
  ]


class Broken:
  """A metrics logger that raises from some call on."""

  def __init__(self, first):
    self.num_calls, self.first = 0, first

  def append_scalar_metrics(self, metrics, global_step):
    self.num_calls += 1
    if self.num_calls >= self.first:
      raise OSError(28, 'No space left on device')


@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('first', [1, 4, 6])
def test_a_logger_that_raises(folder, said, generation, first):
  driver = new_driver(generation=generation)
  logger = driver.workload.metrics_logger = Broken(first)
  assert driver.run()
  assert logger.num_calls == 6  # it is tried again each time
  assert len(events.read_events(folder)) == 11  # none is missing
  assert [text for text in said() if 'failed' in text] == [
    "The benchmark's metrics logger failed: OSError: [Errno 28] No space left "
    'on device. The run goes on; this is logged only once.'
  ]


class WithTensorBoard:
  """As the benchmark's."""

  def __init__(self):
    self.drawn, self._tb_metric_writer = [], self

  def append_scalar_metrics(self, metrics, global_step):
    pass

  def write_scalars(self, step, scalars):
    self.drawn.append((step, scalars['learning_rate']))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_curve_of_the_learning_rate(generation):
  """Each step's rate, also of those in which nothing is evaluated."""
  driver = new_driver(generation=generation)
  logger = driver.workload.metrics_logger = WithTensorBoard()
  assert driver.run()
  assert [step for step, _ in logger.drawn] == list(range(12))
  # Left before step 3 for a cycle of five steps, nominally four.
  peak = PARAMS.hparams.learning_rate
  rates = dict(logger.drawn)
  for step, nominal in {
    0: 0,
    1: 1,
    2: 2,
    3: 0,
    8: 0,
    9: 1,
    10: 2,
    11: 3,
  }.items():
    expected = peak / 2 * (1 + math.cos(math.pi * nominal / 4))
    assert rates[step] == pytest.approx(expected, rel=1e-6)


def test_an_unusable_target_is_refused_where_tau_is_needed():
  class Negative(tiny.TinyWorkload):
    validation_target_value = -1.0

  def start(mode):
    params = dataclasses.replace(PARAMS, reset_mode=mode)
    functions = submission.make_submission(params)
    return tiny.Driver(functions, Negative(), {1: (1.0, -3.0)})

  with pytest.raises(ValueError, match='validation_target_value=-1.0'):
    start('soft')
  for mode in ('full', 'kept_momentum', 'cyclic'):
    assert start(mode).run()

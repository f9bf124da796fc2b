"""The files of a run: what is written, read again, and survived."""

import dataclasses
import json
import math
import pathlib
import shutil
import types

import pytest

from helpers.fake_benchmark import Logger
from helpers.runs import new_driver, newly_set_up
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.engine.records import (
  CYCLES,
  Records,
  read_events,
)
from reset_cycles.schedule_params import THESIS


@pytest.fixture
def said(caplog):
  caplog.set_level('WARNING', logger='absl')
  return lambda: [r.getMessage() for r in caplog.records]


def begun(logger, step=0, params=THESIS, hint=300):
  """The records of a run that starts, or is resumed, at a step."""
  chain = jax_lr_schedule(hint, params.cycles, params.budget_factor)
  files = Records(hint, params, chain)
  files.start(logger, step)
  return files


def row(step, **values):
  return {'event': 'evaluation', 'cycle': 1, **values, 'metric_step': step}


def add(files, *steps):
  for step in steps:
    files.add([row(step)], step, {})


def steps_of(folder):
  return [event['global_step'] for event in read_events(folder / CYCLES)]


def no_room(*args, **kwargs):
  raise OSError(28, 'No space left on device')


def test_what_is_written(tmp_path, said):
  logger = Logger(tmp_path)
  files = begun(logger)
  events = [
    row(7, case1=1, unknown=2, loss=0.5),
    row(7, tau=0.25, metric=math.nan),
  ]
  files.add(events, 7, {'grad_norm': 2.0})
  # One call for all. The validation loss is the runner's own to log.
  numbers = {'cycle': 1, 'case1': 1, 'unknown': 2, 'tau': 0.25}
  numbers |= {'metric_step': 7, 'grad_norm': 2.0}
  assert logger.logged == {7: numbers}
  assert sorted(path.name for path in tmp_path.iterdir()) == [
    'cycles.csv',
    'lr_schedule.png',
    'schedule_params.json',
  ]
  assert (tmp_path / 'lr_schedule.png').read_bytes()[:4] == b'\x89PNG'
  written = json.loads((tmp_path / 'schedule_params.json').read_text())
  assert written['step_hint'] == 300
  rule = {'lam': 0.7, 'eps1': 0.01, 'eps2': 0.01, 'k': 9, 'm': 9}
  settings = written['schedule_params']
  assert settings['switching'] == {'class': 'SmoothedLossRule', **rule}
  assert len(settings['cycles']) == 3 and settings['horizon'] is None
  lines = (tmp_path / CYCLES).read_text().splitlines()
  assert lines[0] == (
    'global_step,event,cycle,setting,reason,cycle_end,pace,anchor_nominal,'
    'rate_factor,peak_value,decay_factor,evaluation,loss,learning_rate,reset,'
    'tau,alpha,metric,metric_step,param_change,moment_norm_before,moment_norm_after,'
    'num_early_stops,note,smoothed_loss,derivative,case1,case2,stopping'
  )
  found, _ = read_events(tmp_path / CYCLES)
  expected = {'global_step': '7', 'event': 'evaluation', 'case1': '1'}
  assert expected.items() <= found.items()
  assert said() == []


@pytest.mark.parametrize('logger', (None, types.SimpleNamespace()))
def test_without_a_folder_nothing_is_saved(logger, tmp_path, monkeypatch, said):
  monkeypatch.chdir(tmp_path)
  files = begun(logger)
  add(files, 1)
  assert files.folder is None and list(tmp_path.iterdir()) == []
  assert len(said()) == (logger is not None)  # it cannot log numbers
  # Nor by another process than the first.
  monkeypatch.setattr('jax.process_index', lambda: 1)
  add(begun(other := Logger(tmp_path)), 1)
  assert (other.logged, list(tmp_path.iterdir())) == ({}, [])


def test_a_resumed_run_keeps_the_events_before_its_step(tmp_path):
  """Whole lines, under one header; a torn one and a second header go."""
  logger = Logger(tmp_path)
  add(begun(logger), 1, 4, 5, 9)
  header = (tmp_path / CYCLES).read_text().splitlines()[0]
  with (tmp_path / CYCLES).open('a') as log:
    log.write(f'{header}\n3,evaluation\n4,evalu')
  again = begun(logger, step=5)
  add(again, 6)
  text = (tmp_path / CYCLES).read_text()
  assert text.count(header) == 1 and text.startswith(header + '\n')
  assert steps_of(tmp_path) == ['1', '4', '3', '6']
  # A file that is gone is begun anew.
  (tmp_path / CYCLES).unlink()
  add(again, 7)
  assert steps_of(tmp_path) == ['7']
  # Before the first step of another run nothing is kept.
  begun(logger)
  assert steps_of(tmp_path) == []


@pytest.mark.parametrize(
  ('content', 'events'),
  (
    (None, []),
    (b'\xff\xfe\n\xff\n', []),
    (b'global_step,event\n1,a\nx,b\n,c\n2,d', ['a']),
  ),
  ids=('no_file', 'no_text', 'torn'),
)
def test_lines_that_are_no_events(tmp_path, content, events):
  path = tmp_path / CYCLES
  if content is not None:
    path.write_bytes(content)
  assert [event['event'] for event in read_events(path)] == events


def test_a_run_is_resumed_with_the_settings_that_it_began_with(tmp_path):
  other, logger = dataclasses.replace(THESIS, repeat=True), Logger(tmp_path)
  begun(logger, params=other)
  begun(logger)  # not resumed: it begins anew
  begun(logger, step=5)
  before = (tmp_path / 'schedule_params.json').read_bytes()
  for params, hint, named in (
    (other, 300, 'schedule_params'),
    (THESIS, 301, 'step_hint'),
  ):
    with pytest.raises(ValueError, match=f'begun with another {named}; resume'):
      begun(logger, step=5, params=params, hint=hint)
  assert (tmp_path / 'schedule_params.json').read_bytes() == before
  (tmp_path / 'schedule_params.json').write_text('{')
  begun(logger, step=5, params=other)  # nothing to compare with
  # A function in them lies elsewhere in every process.
  for step in (0, 5):
    decay = lambda x, warmup=0.0: 1.0 - x
    cycles = (dataclasses.replace(THESIS.cycles[0], decay=decay),)
    params = dataclasses.replace(THESIS, cycles=cycles)
    begun(logger, step=step, params=params)


# Whole runs: 12 steps with an early switch, two resets and a finish.


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


def put_a_folder_in_the_place_of_the_file(folder, monkeypatch):
  (folder / CYCLES).unlink(missing_ok=True)
  (folder / CYCLES).mkdir()


@pytest.mark.parametrize('at_step', (0, 2))
@pytest.mark.parametrize(
  'fault',
  (fill_the_disk, remove_the_folder, put_a_folder_in_the_place_of_the_file),
)
def test_a_run_goes_on_where_nothing_can_be_written(
  folder, monkeypatch, said, fault, at_step
):
  driver = new_driver()
  # A logger may raise anything: this one has no such function.
  driver.workload.metrics_logger = types.SimpleNamespace(
    _csv_path=str(folder / 'measurements.csv')
  )
  driver.run(until=at_step)
  fault(folder, monkeypatch)
  assert driver.run()  # TrainingCompleteError, and no other
  assert driver.global_step == 12
  # Each is said once.
  failed = {text.split(' failed')[0] for text in said()}
  assert len(failed) == len(said())
  begun = {'Writing schedule_params.json', 'Writing lr_schedule.png'}
  assert failed - begun == {
    "The benchmark's metrics logger",
    'Writing cycles.csv',
  }
  keeps = fault is put_a_folder_in_the_place_of_the_file
  assert (failed >= begun) == (at_step == 0 and not keeps)
  assert all('The run goes on; this is logged only' in t for t in said())


def test_a_picture_that_cannot_be_drawn(folder, monkeypatch, said):
  def broken(*unused):
    raise RuntimeError('no font')

  monkeypatch.setattr('reset_cycles.engine.records.drawn', broken)
  newly_set_up().run(until=1)
  assert [text.split(':')[0] for text in said()] == [
    'Drawing lr_schedule.png failed'
  ]
  names = {path.name for path in folder.iterdir()}
  assert names == {'schedule_params.json', 'cycles.csv'}

"""The files of a run: what is written, read again, and survived."""

from __future__ import annotations

import collections
import dataclasses
import io
import json
import math
import os
import pathlib
import shutil
import types

import pytest
from absl import flags

from helpers.runs import new_driver, newly_set_up
from reset_cycles.core import records
from reset_cycles.core.records import (
  CYCLES,
  Records,
  find_folder,
  read_events,
  write_whole,
)
from reset_cycles.schedule_params import THESIS


@pytest.fixture
def said(caplog):
  caplog.set_level('WARNING', logger='absl')
  return lambda: [r.getMessage() for r in caplog.records]


def row(step, **values):
  return {'event': 'evaluation', 'cycle': 1, **values, 'metric_step': step}


def add(files, *steps):
  for step in steps:
    files.add([row(step)], step, None, {})


def steps_of(folder):
  return [event['global_step'] for event in read_events(folder / CYCLES)]


def no_room(*args, **kwargs):
  raise OSError(28, 'No space left on device')


def test_what_is_written(folder, said):
  files = Records(None)
  files.write_settings(300, THESIS, THESIS.chain(300))
  files.start(0, ['case1'])
  logged = []
  logger = types.SimpleNamespace(
    append_scalar_metrics=lambda *x: logged.append(x)
  )
  events = [
    row(7, case1=1, unknown=2, loss=0.5),
    row(7, tau=0.25, metric=math.nan),
  ]
  files.add(events, 7, logger, {'grad_norm': 2.0})
  # One call for all. The validation loss is the runner's own to log.
  numbers = {'cycle': 1, 'case1': 1, 'unknown': 2, 'tau': 0.25}
  numbers |= {'metric_step': 7, 'grad_norm': 2.0}
  assert logged == [(numbers, 7)]
  assert sorted(path.name for path in folder.iterdir()) == [
    'cycles.csv',
    'lr_schedule.png',
    'schedule_params.json',
  ]
  assert (folder / 'lr_schedule.png').read_bytes()[:4] == b'\x89PNG'
  written = json.loads((folder / 'schedule_params.json').read_text())
  assert written['step_hint'] == 300
  assert written['schedule_params'] == records.as_plain(THESIS)
  lines = (folder / CYCLES).read_text().splitlines()
  assert lines[0].split(',') == [*records.COLUMNS, 'case1']
  found, _ = read_events(folder / CYCLES)
  expected = {'global_step': '7', 'event': 'evaluation', 'case1': '1'}
  assert expected.items() <= found.items()
  assert said() == []


def test_a_resumed_run_keeps_the_events_before_its_step(folder):
  """Whole lines, under one header; a torn one and a second header go."""
  files = Records(None)
  files.start(0, ['case1'])
  add(files, 1, 4, 5, 9)
  header = (folder / CYCLES).read_text().splitlines()[0]
  with (folder / CYCLES).open('a') as log:
    log.write(f'{header}\n3,evaluation\n4,evalu')
  again = Records(None)
  again.start(5, ['case1'])
  add(again, 6)
  text = (folder / CYCLES).read_text()
  assert text.count(header) == 1 and text.startswith(header + '\n')
  assert steps_of(folder) == ['1', '4', '3', '6']
  # A file that is gone is begun anew.
  (folder / CYCLES).unlink()
  add(again, 7)
  assert steps_of(folder) == ['7']
  # Before the first step of another run nothing is kept.
  Records(None).start(0, ['case1'])
  assert steps_of(folder) == []


@pytest.mark.parametrize(
  ('content', 'events'),
  (
    (None, []),
    (b'\xff\xfe\n\xff\n', []),
    (b'global_step,event\n1,a\nx,b\n,c\n2,d', ['a']),
  ),
)
def test_lines_that_are_no_events(tmp_path, content, events):
  path = tmp_path / CYCLES
  if content is not None:
    path.write_bytes(content)
  assert [event['event'] for event in read_events(path)] == events


def test_a_line_that_does_not_fit_on_the_disk_is_not_torn(
  folder, said, monkeypatch
):
  files = Records(None)
  files.start(0, [])
  add(files, 1)
  before = (folder / CYCLES).read_bytes()

  class Short(io.FileIO):
    def write(self, content):
      return super().write(content[:5])

  with monkeypatch.context() as patched:
    patched.setattr(
      pathlib.Path, 'open', lambda path, mode, **unused: Short(path, mode)
    )
    add(files, 2)
  assert (folder / CYCLES).read_bytes() == before
  assert [text.split(':')[0] for text in said()] == [
    'Writing cycles.csv failed'
  ]
  add(files, 3)
  assert steps_of(folder) == ['1', '3']


def test_settings_of_a_run_that_has_begun(folder):
  def begin(params, hint):
    Records(None).write_settings(hint, params, params.chain(hint))

  waiting = dataclasses.replace(THESIS, wait=True)
  begin(waiting, 300)
  (folder / 'checkpoint_of_mine').touch()
  begin(THESIS, 300)  # without a checkpoint it begins anew
  (folder / 'checkpoint_5').touch()
  begin(THESIS, 300)
  before = (folder / 'schedule_params.json').read_bytes()
  for params, hint, named in (
    (waiting, 300, 'schedule_params'),
    (THESIS, 301, 'step_hint'),
  ):
    with pytest.raises(ValueError, match=f'begun with another {named}; resume'):
      begin(params, hint)
  assert (folder / 'schedule_params.json').read_bytes() == before
  (folder / 'schedule_params.json').write_text('{')
  begin(waiting, 300)  # nothing to compare with


def test_a_folder_that_cannot_be_looked_for(said, monkeypatch):
  def forbidden(hyperparameters):
    raise PermissionError(13, 'Permission denied')

  monkeypatch.setattr(records, 'find_folder', forbidden)
  assert Records(None).folder is None
  first, second = said()
  assert first.startswith("Finding the run's folder failed: PermissionError")
  assert second == (
    'No experiment folder was found: training goes on, nothing is saved.'
  )


def test_a_file_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
  path = tmp_path / 'file'
  write_whole(path, b'first')

  monkeypatch.setattr('os.replace', no_room)
  with pytest.raises(OSError, match='No space'):
    write_whole(path, b'second')
  assert path.read_bytes() == b'first'
  assert list(tmp_path.iterdir()) == [path]  # nor is anything else left


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
  driver.workload.metrics_logger = types.SimpleNamespace()
  driver.run(until=at_step)
  fault(folder, monkeypatch)
  assert driver.run()  # TrainingCompleteError, and no other
  assert driver.global_step == 12
  # Each is said once.
  failed = sorted(text.split(' failed')[0] for text in said())
  assert failed == ["The benchmark's metrics logger", 'Writing cycles.csv']
  assert all('The run goes on; this is logged only' in t for t in said())


def test_a_run_starts_where_nothing_can_be_written(folder, monkeypatch, said):
  fill_the_disk(folder, monkeypatch)
  newly_set_up().run(until=1)
  assert [text.split(' failed')[0] for text in said()] == [
    'Writing schedule_params.json',
    'Drawing lr_schedule.png',
    'Writing cycles.csv',
  ]


# Where the files of a run go.


@pytest.fixture
def parse_flags(monkeypatch):
  """Replaces absl's flags by some of the runner's, parsed."""

  def parse(append_timestamp=None, **values):
    own = flags.FlagValues()
    for name, value in values.items():
      flags.DEFINE_string(name, value, '', flag_values=own)
    if append_timestamp is not None:
      flags.DEFINE_boolean(
        'append_timestamp', append_timestamp, '', flag_values=own
      )
    own(['program'])
    monkeypatch.setattr(flags, 'FLAGS', own)

  return parse


OGBG = {'workload': 'ogbg', 'framework': 'jax'}


@pytest.fixture
def experiment(tmp_path, parse_flags):
  parse_flags(experiment_dir=str(tmp_path), experiment_name='name', **OGBG)
  folder = tmp_path / 'name' / 'ogbg_jax'
  folder.mkdir(parents=True)
  return folder


Point = collections.namedtuple('Hyperparameters', ['alpha'])
POINT = Point(0.25)


def make_trial(experiment, name, content=POINT):
  trial = experiment / name
  trial.mkdir()
  if isinstance(content, Point):
    content = json.dumps(content._asdict()).encode()
  if content is not None:
    (trial / 'hparams.json').write_bytes(content)
  return trial


def test_self_tuning_has_one_trial(experiment):
  assert find_folder(None) is None  # not made yet
  trial = make_trial(experiment, 'trial_1', None)
  assert find_folder(None) == trial
  assert find_folder({}) == trial  # the benchmark's own tests


def test_external_tuning_has_the_newest_trial_of_the_point(experiment):
  """Whatever else lies there: no trial, no point, or one that is not whole."""
  for name in ('trial_x', 'trial_', 'trial_1_old', 'trial_0x1'):
    make_trial(experiment, name)
  contents = (b'{"alpha": 0.2', b'', b'[0.25]', b'null', b'\xff\xfe', None)
  for i, content in enumerate(contents, start=11):
    make_trial(experiment, f'trial_{i}', content)
  make_trial(experiment, 'trial_3', Point(0.5))
  assert find_folder(POINT) is None
  for name in ('trial_2', 'trial_10'):
    trial = make_trial(experiment, name)
    assert find_folder(POINT) == trial
  assert find_folder(Point(0.75)) is None


def test_a_name_with_a_timestamp(tmp_path, parse_flags):
  where = {'experiment_dir': str(tmp_path), 'experiment_name': 'name', **OGBG}
  parse_flags(append_timestamp=True, **where)
  assert find_folder(None) is None
  for time in (2, 1):
    trial = tmp_path / f'name-2026-01-0{time}' / 'ogbg_jax' / 'trial_1'
    trial.mkdir(parents=True)
    os.utime(trial.parents[1], (time, time))
  assert find_folder(None).parts[-3] == 'name-2026-01-02'


def test_no_flags(monkeypatch, parse_flags, tmp_path):
  own = flags.FlagValues()
  monkeypatch.setattr(flags, 'FLAGS', own)
  assert find_folder(None) is None  # not defined
  for name in ('experiment_dir', *OGBG):
    flags.DEFINE_string(name, None, '', flag_values=own)
  assert find_folder(None) is None  # not parsed
  own(['program'])
  assert find_folder(None) is None  # not given
  parse_flags(experiment_dir=str(tmp_path), **OGBG)
  trial = tmp_path / 'ogbg_jax' / 'trial_1'
  trial.mkdir(parents=True)
  assert find_folder(None) == trial  # without an experiment name

"""The files of a run: what is written, read again, and survived."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import shutil

import pytest
from absl import flags

from helpers.runs import (
  PARAMS,
  SWITCHING,
  assert_equal_trees,
  host,
  newly_set_up,
)
from reset_cycles.core import records
from reset_cycles.core.cycle import Cosine
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


def test_what_is_written(folder, said):
  files = Records(None)
  files.write_settings(300, THESIS, THESIS.chain(300))
  files.start(0, ['case1'])
  files.add([row(7, case1=1, unknown=2)], 7, None, {})
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
  (found,) = read_events(folder / CYCLES)
  assert (found['global_step'], found['event'], found['case1']) == (
    '7',
    'evaluation',
    '1',
  )
  assert said() == []


def test_settings_in_plain_json():
  assert records.as_plain(Cosine(0.1)) == {'class': 'Cosine', 'floor': 0.1}
  assert records.as_plain((Cosine(), 2)) == [
    {'class': 'Cosine', 'floor': 0.0},
    2,
  ]


def test_a_resumed_run_keeps_the_events_before_its_step(folder):
  """Whole lines, under one header; a torn one and a second header go."""
  files = Records(None)
  files.start(0, ['case1'])
  for step in (1, 4, 5, 9):
    files.add([row(step)], step, None, {})
  header = (folder / CYCLES).read_text().splitlines()[0]
  with (folder / CYCLES).open('a') as log:
    log.write(f'{header}\n3,evaluation\n4,evalu')
  again = Records(None)
  again.start(5, ['case1'])
  again.add([row(6)], 6, None, {})
  text = (folder / CYCLES).read_text()
  assert text.count(header) == 1 and text.startswith(header + '\n')
  steps = [event['global_step'] for event in read_events(folder / CYCLES)]
  assert steps == ['1', '4', '3', '6']
  # Before the first step of another run nothing is kept.
  Records(None).start(0, ['case1'])
  assert read_events(folder / CYCLES) == []


def test_a_line_that_does_not_fit_on_the_disk_is_not_torn(
  folder, said, monkeypatch
):
  files = Records(None)
  files.start(0, [])
  files.add([row(1)], 1, None, {})
  before = (folder / CYCLES).read_bytes()
  real = pathlib.Path.open

  def short(self, mode='r', *args, **kwargs):
    log = real(self, mode, *args, **kwargs)
    if mode != 'ab':
      return log

    class Short:
      def __enter__(self):
        return self

      def __exit__(self, *error):
        log.close()

      def __getattr__(self, name):
        return getattr(log, name)

      def write(self, content):
        return log.write(content[:5])

    return Short()

  monkeypatch.setattr(pathlib.Path, 'open', short)
  files.add([row(2)], 2, None, {})
  monkeypatch.undo()
  assert (folder / CYCLES).read_bytes() == before
  assert [text.split(':')[0] for text in said()] == [
    'Writing cycles.csv failed'
  ]
  Records.add(files, [row(3)], 3, None, {})
  steps = [event['global_step'] for event in read_events(folder / CYCLES)]
  assert steps == ['1', '3']


@pytest.mark.parametrize(
  ('settings', 'step_hint', 'named'),
  (
    (dataclasses.replace(THESIS, wait=True), 300, 'schedule_params'),
    (THESIS, 301, 'step_hint'),
  ),
)
def test_settings_of_a_run_that_has_begun(folder, settings, step_hint, named):
  def begin(params, hint):
    Records(None).write_settings(hint, params, params.chain(hint))

  begin(THESIS, 300)
  begin(settings, step_hint)  # without a checkpoint it begins anew
  begin(THESIS, 300)
  (folder / 'checkpoint_5').touch()
  begin(THESIS, 300)
  before = (folder / 'schedule_params.json').read_bytes()
  with pytest.raises(ValueError, match=f'begun with another {named}; resume'):
    begin(settings, step_hint)
  assert (folder / 'schedule_params.json').read_bytes() == before
  (folder / 'schedule_params.json').write_text('{')
  begin(settings, step_hint)  # nothing to compare with


def test_no_folder_is_said_once(said):
  assert Records(None).folder is None
  assert said() == [
    'No experiment folder was found: training goes on, nothing is saved.'
  ]


def test_a_folder_that_cannot_be_looked_for(said, monkeypatch):
  def forbidden(hyperparameters):
    raise PermissionError(13, 'Permission denied')

  monkeypatch.setattr(records, 'find_folder', forbidden)
  assert Records(None).folder is None
  first, second = said()
  assert first.startswith("Finding the run's folder failed: PermissionError")
  assert second.startswith('No experiment folder was found')


def test_a_file_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
  path = tmp_path / 'file'
  write_whole(path, b'first')

  def fail(*args):
    raise OSError('full')

  monkeypatch.setattr('os.replace', fail)
  with pytest.raises(OSError, match='full'):
    write_whole(path, b'second')
  assert path.read_bytes() == b'first'
  assert list(tmp_path.iterdir()) == [path]  # nor is anything else left


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


def put_a_folder_in_the_place_of_the_file(folder, monkeypatch):
  (folder / CYCLES).unlink(missing_ok=True)
  (folder / CYCLES).mkdir()


class Broken:
  """A metrics logger that raises."""

  def append_scalar_metrics(self, metrics, global_step):
    raise OSError(28, 'No space left on device')


@pytest.fixture(scope='module')
def undisturbed():
  driver = newly_set_up(PARAMS, 'jit', SWITCHING)
  assert driver.run()
  return host((driver.params, driver.optimizer_state[0]))


@pytest.mark.parametrize('at_step', (0, 2))
@pytest.mark.parametrize(
  'fault',
  (fill_the_disk, remove_the_folder, put_a_folder_in_the_place_of_the_file),
)
def test_a_run_goes_on_where_nothing_can_be_written(
  folder, monkeypatch, said, undisturbed, fault, at_step
):
  driver = newly_set_up(PARAMS, 'jit', SWITCHING)
  driver.workload.metrics_logger = Broken()
  driver.run(until=at_step)
  fault(folder, monkeypatch)
  assert driver.run()  # TrainingCompleteError, and no other
  assert driver.global_step == 12
  assert_equal_trees((driver.params, driver.optimizer_state[0]), undisturbed)
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


def test_lines_that_are_no_events(tmp_path):
  path = tmp_path / CYCLES
  assert read_events(path) == []
  path.write_bytes(b'\xff\xfe\n\xff\n')
  assert read_events(path) == []
  path.write_text('global_step,event\n1,a\nx,b\n,c\n2,d')
  assert [event['event'] for event in read_events(path)] == ['a']


# Where the files of a run go.


@pytest.fixture
def parse_flags(monkeypatch):
  """Replaces absl's flags by some of the runner's, parsed."""

  def parse(**values):
    own = flags.FlagValues()
    for name, value in values.items():
      flags.DEFINE_string(name, value, '', flag_values=own)
    own(['program'])
    monkeypatch.setattr(flags, 'FLAGS', own)

  return parse


@pytest.fixture
def experiment(tmp_path, parse_flags):
  parse_flags(
    experiment_dir=str(tmp_path),
    experiment_name='name',
    workload='ogbg',
    framework='jax',
  )
  folder = tmp_path / 'name' / 'ogbg_jax'
  folder.mkdir(parents=True)
  return folder


Point = collections.namedtuple('Hyperparameters', ['alpha'])


def make_trial(experiment, number, point=None):
  trial = experiment / f'trial_{number}'
  trial.mkdir()
  if point is not None:
    (trial / 'hparams.json').write_text(json.dumps(point._asdict()))
  return trial


def test_self_tuning_has_one_trial(experiment):
  assert find_folder(None) is None  # not made yet
  trial = make_trial(experiment, 1)
  assert find_folder(None) == trial
  assert find_folder({}) == trial  # the benchmark's own tests


def test_external_tuning_has_the_newest_trial_of_the_point(experiment):
  point = Point(0.25)
  make_trial(experiment, 2, point)
  make_trial(experiment, 9, Point(0.5))
  newest = make_trial(experiment, 10, point)
  make_trial(experiment, 11)
  assert find_folder(point) == newest
  assert find_folder(Point(0.75)) is None


@pytest.mark.parametrize(
  'content', [b'{"alpha": 0.2', b'', b'[0.25]', b'null', b'\xff\xfe', None]
)
def test_the_file_of_another_trial_is_no_point_or_not_whole_yet(
  experiment, content
):
  point = Point(0.25)
  trial = make_trial(experiment, 1, point)
  damaged = make_trial(experiment, 2) / 'hparams.json'
  if content is None:
    damaged.mkdir()  # no file at all
  else:
    damaged.write_bytes(content)
  assert find_folder(point) == trial


@pytest.mark.parametrize(
  'name', ['trial_x', 'trial_', 'trial_1_old', 'trial_0x1']
)
def test_a_folder_that_is_no_trial(experiment, name):
  point = Point(0.25)
  unrelated = experiment / name
  unrelated.mkdir()
  (unrelated / 'hparams.json').write_text(json.dumps(point._asdict()))
  assert find_folder(point) is None
  trial = make_trial(experiment, 1, point)
  assert find_folder(point) == trial


def test_a_name_with_a_timestamp(tmp_path, monkeypatch):
  own = flags.FlagValues()
  for name, value in {
    'experiment_dir': str(tmp_path),
    'experiment_name': 'name',
    'workload': 'ogbg',
    'framework': 'jax',
  }.items():
    flags.DEFINE_string(name, value, '', flag_values=own)
  flags.DEFINE_boolean('append_timestamp', True, '', flag_values=own)
  own(['program'])
  monkeypatch.setattr(flags, 'FLAGS', own)
  assert find_folder(None) is None
  for time, name in ((2, 'name-2026-01-02'), (1, 'name-2026-01-01')):
    folder = tmp_path / name
    (folder / 'ogbg_jax' / 'trial_1').mkdir(parents=True)
    os.utime(folder, (time, time))
  expected = tmp_path / 'name-2026-01-02' / 'ogbg_jax' / 'trial_1'
  assert find_folder(None) == expected


def test_no_flags(monkeypatch, parse_flags, tmp_path):
  monkeypatch.setattr(flags, 'FLAGS', flags.FlagValues())
  assert find_folder(None) is None  # not parsed
  parse_flags(workload='ogbg', framework='jax')
  assert find_folder(None) is None  # not defined
  parse_flags(experiment_dir=None, workload='ogbg', framework='jax')
  assert find_folder(None) is None  # not given
  parse_flags(experiment_dir=str(tmp_path), workload='ogbg', framework='jax')
  trial = tmp_path / 'ogbg_jax' / 'trial_1'
  trial.mkdir(parents=True)
  assert find_folder(None) == trial  # without an experiment name

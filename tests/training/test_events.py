"""cycles.csv."""

from __future__ import annotations

import pathlib

import pytest

from reset_cycles.training import events
from reset_cycles.training.events import CYCLES, EventLog, read_events

HEADER = (
  'global_step,event,cycle,setting,reason,cycle_end,pace,anchor_local,scale,'
  'peak_value,evaluation,loss,learning_rate,mode,tau,alpha,metric,metric_step,'
  'note'
)


def lines(folder):
  return (folder / CYCLES).read_text().splitlines()


def test_a_line_per_event(tmp_path):
  assert read_events(tmp_path) == []
  log = EventLog(tmp_path)
  log.keep_before(0)
  log.append([{'event': 'cycle_start', 'cycle': 1}], 0)
  rows = [{'event': 'evaluation', 'loss': 0.5}, {'event': 'reset', 'tau': 1.0}]
  log.append(rows, 7)
  assert lines(tmp_path) == [
    HEADER,
    '0,cycle_start,1' + 16 * ',',
    '7,evaluation' + 10 * ',' + '0.5' + 7 * ',',
    '7,reset' + 13 * ',' + '1.0' + 4 * ',',
  ]
  assert [row['event'] for row in read_events(tmp_path)] == [
    'cycle_start',
    'evaluation',
    'reset',
  ]


def test_a_resumed_run_drops_what_it_repeats(tmp_path):
  log = EventLog(tmp_path)
  for step in (0, 7, 9):
    log.append([{'event': 'evaluation'}], step)
  before = lines(tmp_path)
  EventLog(tmp_path).keep_before(7)
  assert lines(tmp_path) == before[:2]
  assert [path.name for path in tmp_path.iterdir()] == [CYCLES]


def test_columns_of_the_parts_in_force(tmp_path):
  log = EventLog(tmp_path)
  log.keep_before(0, ['smoothed_loss', 'case1', 'loss'])
  assert lines(tmp_path) == [HEADER + ',smoothed_loss,case1']
  log.append([{'event': 'evaluation', 'case1': 1}], 3)
  assert read_events(tmp_path)[0]['case1'] == '1'


def test_a_file_of_an_older_run_has_fewer_columns(tmp_path):
  (tmp_path / CYCLES).write_text('global_step,event,old\n3,hold,x\n8,reset,y\n')
  assert read_events(tmp_path)[0] == {
    'global_step': '3',
    'event': 'hold',
    'old': 'x',
  }
  log = EventLog(tmp_path)
  log.keep_before(8, ['case1'])
  log.append([{'event': 'finish', 'case1': 0}], 9)
  first, second = read_events(tmp_path)
  # What it had is kept, also where nobody writes that any more.
  assert (first['event'], first['old'], first['case1']) == ('hold', 'x', '')
  assert (second['event'], second['old'], second['case1']) == (
    'finish',
    '',
    '0',
  )
  assert list(first) == [*HEADER.split(','), 'case1', 'old']


def test_a_torn_last_line_is_ignored(tmp_path):
  log = EventLog(tmp_path)
  log.keep_before(0)
  log.append([{'event': 'hold', 'cycle': 3}], 7)
  with (tmp_path / CYCLES).open('a') as file:
    file.write('12,finish,3,cycles ha')
  assert [row['event'] for row in read_events(tmp_path)] == ['hold']
  log.keep_before(99)
  assert [row['event'] for row in read_events(tmp_path)] == ['hold']


def test_an_unknown_column_is_refused_and_nothing_lost(tmp_path):
  log = EventLog(tmp_path)
  log.append([{'event': 'hold'}], 3)
  before = lines(tmp_path)
  with pytest.raises(ValueError, match='unheard_of'):
    log.append([{'unheard_of': 1}], 4)
  assert lines(tmp_path) == before


def test_a_file_that_vanished_gets_a_header_anew(tmp_path):
  log = EventLog(tmp_path)
  log.append([{'event': 'hold'}], 3)
  (tmp_path / CYCLES).unlink()
  log.append([{'event': 'finish'}], 4)
  assert lines(tmp_path)[0] == HEADER
  assert [row['event'] for row in read_events(tmp_path)] == ['finish']


def test_a_disk_that_fills_up_in_the_middle_of_a_line(tmp_path, monkeypatch):
  """What was written of it goes, and the next line is a line again."""
  log = EventLog(tmp_path)
  log.append([{'event': 'hold', 'cycle': 1}], 3)
  before = lines(tmp_path)
  real_open = pathlib.Path.open

  def nearly_full(self, *args, **kwargs):
    file = real_open(self, *args, **kwargs)
    return Nearly(file)

  class Nearly:
    """Writes ten bytes and no more, as the system does."""

    def __init__(self, file):
      self._file = file

    def write(self, content):
      return self._file.write(content[:10])

    def __getattr__(self, name):
      return getattr(self._file, name)

    def __enter__(self):
      return self

    def __exit__(self, *unused):
      self._file.close()

  monkeypatch.setattr(pathlib.Path, 'open', nearly_full)
  with pytest.raises(OSError, match=f'{CYCLES}: could not write'):
    log.append([{'event': 'reset', 'cycle': 2}], 5)
  monkeypatch.undo()
  assert lines(tmp_path) == before
  log.append([{'event': 'finish', 'cycle': 2}], 6)
  assert [row['event'] for row in read_events(tmp_path)] == ['hold', 'finish']


def test_fixed_columns_are_each_there_once():
  assert len(set(events.COLUMNS)) == len(events.COLUMNS)

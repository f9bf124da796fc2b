"""Logs to which several processes add rows."""

import threading

import pytest

from reset_cycles.research import run_logs


@pytest.mark.parametrize('before', ('', 'run,loss\nhalf,0.'))
def test_one_adds_rows_after_the_other(tmp_path, before):
  """The second begins while the first has read the log and has not written."""
  log = tmp_path / 'runs.csv'
  log.write_text(before)
  add = lambda rows: run_logs.append(log, ('run', 'loss'), rows)
  second = threading.Thread(target=add, args=([('second', 2)],))

  def rows():
    second.start()
    second.join(timeout=0.2)  # it waits for longer than this
    yield 'first', 1

  add(rows())
  second.join()
  assert log.read_text() == 'run,loss\nfirst,1\nsecond,2\n'

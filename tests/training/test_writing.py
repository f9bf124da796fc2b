"""Writing that cannot hurt a run."""

from __future__ import annotations

import pytest

from reset_cycles.training.writing import Attempts, write_whole


@pytest.fixture
def said(caplog):
  caplog.set_level('WARNING', logger='absl')
  return lambda: [r.getMessage() for r in caplog.records]


def failing(error):
  def fail(*args):
    raise error

  return fail


def test_what_succeeds_is_returned_and_nothing_said(said):
  assert Attempts()('adding', lambda a, b: a + b, 2, 3) == 5
  assert said() == []


@pytest.mark.parametrize(
  'error',
  [
    OSError(28, 'No space left on device'),
    FileNotFoundError('gone'),
    ValueError('a row has an unknown column'),
    RuntimeError('of a foreign logger'),
  ],
)
def test_a_failure_is_said_once_and_goes_no_further(said, error):
  attempt = Attempts()
  for _ in range(3):
    assert attempt('writing x.csv', failing(error)) is None
  assert said() == [
    f'Writing x.csv failed: {type(error).__name__}: {error}. The run goes on; '
    'this is logged only once.'
  ]


def test_each_thing_is_said_and_each_run_says_it(said):
  for attempt in (Attempts(), Attempts()):
    for what in ('writing a', 'writing b', 'writing a'):
      attempt(what, failing(OSError('full')))
  assert [text.split(' failed')[0] for text in said()] == [
    'Writing a',
    'Writing b',
  ] * 2


def test_what_failed_is_tried_again(said):
  attempt, calls = Attempts(), []
  attempt('writing', failing(OSError('full')))
  attempt('writing', calls.append, 1)
  assert calls == [1]
  assert len(said()) == 1


@pytest.mark.parametrize('error', [KeyboardInterrupt, SystemExit])
def test_whoever_ends_the_process_is_heard(error):
  with pytest.raises(error):
    Attempts()('writing', failing(error()))


def test_a_file_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
  path = tmp_path / 'file'
  write_whole(path, b'first')
  monkeypatch.setattr('os.replace', failing(OSError('full')))
  with pytest.raises(OSError, match='full'):
    write_whole(path, b'second')
  assert path.read_bytes() == b'first'
  assert list(tmp_path.iterdir()) == [path]  # nor is anything else left

"""Files that are written whole, with processes that are killed or meet."""

import errno
import os

import pytest

from reset_cycles.core.whole_files import replace_file


def no_room(*unused):
  raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
  path = tmp_path / 'file'
  replace_file(path, b'first')

  monkeypatch.setattr('os.replace', no_room)
  with pytest.raises(OSError, match='No space'):
    replace_file(path, b'second')
  assert path.read_bytes() == b'first'
  assert list(tmp_path.iterdir()) == [path]  # nor is anything else left


def test_what_a_killed_process_has_left_is_removed(tmp_path, monkeypatch):
  """Of the same file only; it is left by a rename that never comes."""
  path, killed = tmp_path / 'a+b', []
  others = {'.a+b.csv.1.tmp', '.a+b.tmp', '.aab.1.tmp', 'a+b.1.tmp', '.a+b.1'}
  for name in others:
    (tmp_path / name).write_bytes(b'')

  def kill(source, target):
    killed.append(source)
    copy = source.with_name(source.name.replace(str(os.getpid()), '7'))
    copy.write_bytes(source.read_bytes())
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr('os.replace', kill)
    with pytest.raises(KeyboardInterrupt):
      replace_file(path, b'first')
  assert {p.name for p in tmp_path.iterdir()} == {*others, '.a+b.7.tmp'}
  replace_file(path, b'second')
  assert {p.name for p in tmp_path.iterdir()} == {*others, 'a+b'}
  assert path.read_bytes() == b'second'


def test_two_processes_that_write_at_once(tmp_path, monkeypatch):
  """The second one removes the first one's file; both have written in the end."""
  path, rename, found = tmp_path / 'file', os.replace, []

  def meet(source, target):
    monkeypatch.setattr('os.replace', rename)
    with monkeypatch.context() as patch:
      patch.setattr('os.getpid', lambda: 7)
      replace_file(path, b'second')
    found.append(path.read_bytes())
    rename(source, target)

  monkeypatch.setattr('os.replace', meet)
  replace_file(path, b'first')
  assert found == [b'second']
  assert path.read_bytes() == b'first'
  assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_removed_again_and_again(tmp_path, monkeypatch):
  calls = []

  def remove(source, target):
    calls.append(source)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

  monkeypatch.setattr('os.replace', remove)
  with pytest.raises(OSError, match='No such file'):
    replace_file(tmp_path / 'file', b'')
  assert len(calls) == 9
  assert not list(tmp_path.iterdir())

"""A disk that is watched: it can be full, and its states can be kept."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import sys


class Disk:
  """Watches what is written below a folder; can fail it, or keep its states.

  What is on the disk before a write is what a process leaves that is killed
  there: nothing is lost of what was handed to the system before.
  """

  def __init__(self):
    self.root, self.calls, self._before = None, 0, None
    sys.addaudithook(self._hear)  # for good: there is no way to remove one

  @contextlib.contextmanager
  def watched(self, root, before=lambda number: None):
    """Calls before(number of the write, from 0) for each write below root."""
    self.root, self.calls, self._before = str(root), 0, before
    try:
      yield self
    finally:
      self.root = None

  def _hear(self, event, args):
    if self.root is None or not self._is_write(event, args):
      return
    root, self.root = self.root, None  # what `before` does is no event
    try:
      self._before(self.calls)
    finally:
      self.root, self.calls = root, self.calls + 1

  def _is_write(self, event, args):
    if event not in ('open', 'os.rename', 'os.remove', 'os.mkdir'):
      return False
    if not isinstance(args[0], (str, bytes, os.PathLike)):
      return False
    if event == 'open' and not args[2] & (os.O_WRONLY | os.O_RDWR):
      return False
    return os.fsdecode(args[0]).startswith(self.root)


def full_at(wanted):
  """For `Disk.watched`: one write fails."""

  def before(number):
    if number == wanted:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  return before


def keeping(root, states):
  """For `Disk.watched`: what is below root before each write, into a folder."""
  return lambda number: shutil.copytree(root, pathlib.Path(states, str(number)))

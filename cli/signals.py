"""Ctrl-C and SIGTERM: both end a command, and both say the same."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Callable

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
MESSAGE = 'soft-reset: interrupted.'


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
  """Inside the block they end the process on the spot.

  For the time in which modules are imported: nothing has been written yet, and
  a KeyboardInterrupt can get lost in a callback of the import.
  """
  with _handled(_end, signal.SIGINT, signal.SIGTERM):
    yield


@contextlib.contextmanager
def raising() -> Iterator[None]:
  """Inside the block SIGTERM raises a KeyboardInterrupt, as Ctrl-C does."""
  with _handled(signal.default_int_handler, signal.SIGTERM):
    yield


def _end(signum: int, frame: FrameType | None) -> None:
  del signum, frame
  # Neither print nor exit: either may be what was interrupted.
  os.write(2, f'{MESSAGE}\n'.encode())
  os._exit(INTERRUPTED)


@contextlib.contextmanager
def _handled(
  handler: Callable[[int, FrameType], None], *signals: int
) -> Iterator[None]:
  """Sets a handler where Python's own, or none, is set.

  A shell's background process ignores Ctrl-C, and goes on ignoring it; threads
  other than the main one get no signals.
  """
  before = {}
  if threading.current_thread() is threading.main_thread():
    usual = (signal.default_int_handler, signal.SIG_DFL)
    before = {s: signal.getsignal(s) for s in signals}
    before = {s: old for s, old in before.items() if old in usual}
  for number in before:
    signal.signal(number, handler)
  try:
    yield
  finally:
    for number, old in before.items():
      signal.signal(number, old)

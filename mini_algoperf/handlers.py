"""Handlers of signals that are in force for a time."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Callable

Handler = Callable[[int, 'FrameType | None'], None]


@contextlib.contextmanager
def handled(handler: Handler, *signals: int) -> Iterator[None]:
  """Sets a handler inside the block, where Python's own or none is set.

  Nothing changes where a signal would neither end the process nor raise a
  KeyboardInterrupt: in another thread, for a Ctrl-C that a shell's background
  process ignores, or under a handler of someone else's.

  Args:
    handler: is called with the signal's number and the frame.
    *signals: their numbers.
  """
  before = {}
  if threading.current_thread() is threading.main_thread():
    ending = (signal.default_int_handler, signal.SIG_DFL)
    before = {s: signal.getsignal(s) for s in signals}
    before = {s: old for s, old in before.items() if old in ending}
  for number in before:
    signal.signal(number, handler)
  try:
    yield
  finally:
    for number, old in before.items():
      signal.signal(number, old)

"""Ctrl-C, acted on between steps.

Raised anywhere, a KeyboardInterrupt can get lost in a callback of jax, and one
inside a compilation can crash the process when it exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from .runner import Observer
from .trial import Trial

_NOTICE = b'\nsoft-reset: ends after this step; Ctrl-C again ends it at once.\n'


class Interrupts(Observer):
  """Remembers Ctrl-C until it is asked; the second press doesn't wait."""

  def __init__(self):
    self._pressed = False

  def note(self, signum, frame) -> None:
    """The signal's handler."""
    del signum, frame
    if self._pressed:
      raise KeyboardInterrupt
    self._pressed = True
    # Not print: it may be what was interrupted.
    os.write(2, _NOTICE)

  def check(self) -> None:
    """Raises KeyboardInterrupt if Ctrl-C was pressed."""
    if self._pressed:
      raise KeyboardInterrupt

  def on_step(self, trial: Trial) -> None:
    """A run ends after the step in which Ctrl-C was pressed."""
    self.check()


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
  """Handles Ctrl-C by an `Interrupts` inside the block.

  Where Python wouldn't raise a KeyboardInterrupt (another thread, or a shell's
  background process, which ignores Ctrl-C), nothing changes.
  """
  interrupts = Interrupts()
  is_main = threading.current_thread() is threading.main_thread()
  previous = signal.getsignal(signal.SIGINT)
  if not is_main or previous is not signal.default_int_handler:
    yield interrupts
    return
  signal.signal(signal.SIGINT, interrupts.note)
  try:
    yield interrupts
  finally:
    signal.signal(signal.SIGINT, previous)

"""Ctrl-C, SIGTERM and SIGHUP, acted on between steps.

A KeyboardInterrupt that is raised at once can get lost in a callback of jax,
and inside a compilation it can crash the process at exit. Nothing here imports
jax: the handlers are set before jax is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

# What ends a process: Ctrl-C, kill, and the end of its terminal.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, 'FrameType | None'], object]
_NOTICE = (
  b'\nreset-cycles: ends after the set-up or this step; Ctrl-C again ends it '
  b'at once.\n'
)


@contextlib.contextmanager
def handled(handler: Handler, *signals: int) -> Iterator[None]:
  """Sets a handler inside the block, in the place of Python's own or of none.

  Nothing changes where a signal would neither end the process nor raise a
  KeyboardInterrupt: in another thread, for a Ctrl-C that a shell's background
  process ignores, or under a handler of someone else's.
  """
  before: dict[int, Any] = {}
  if threading.current_thread() is threading.main_thread():
    before = {s: signal.getsignal(s) for s in signals}
  ending = (signal.default_int_handler, signal.SIG_DFL)
  before = {s: old for s, old in before.items() if old in ending}
  for number in before:
    signal.signal(number, handler)
  try:
    yield
  finally:
    for number, old in before.items():
      signal.signal(number, old)


class Interrupts:
  """Remembers a signal until `raise_pending`; a second signal doesn't wait.

  As an observer of a run (`runner.Observer`), it ends the run after the step in
  which the signal came. An evaluation is followed by its checkpoint first.
  """

  def __init__(self) -> None:
    self._was_given = False

  def note(self, signum: int, frame: FrameType | None) -> None:
    """The signals' handler."""
    self.raise_pending()
    self._was_given = True
    # Not print: it may be what was interrupted.
    os.write(2, _NOTICE)

  def raise_pending(self) -> None:
    """Raises KeyboardInterrupt if there was a signal."""
    if self._was_given:
      raise KeyboardInterrupt

  def on_step(self, trial: Any) -> None:
    """Ends the run by a KeyboardInterrupt if there was a signal."""
    self.raise_pending()

  def on_evaluation(self, trial: Any) -> None:
    """Nothing ends here."""


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
  """Inside the block, an `Interrupts` handles signals that end a process."""
  interrupts = Interrupts()
  with handled(interrupts.note, *ENDING):
    yield interrupts

"""Ctrl-C and SIGTERM, acted on between steps.

Raised anywhere, a KeyboardInterrupt can get lost in a callback of jax, and one
inside a compilation can crash the process when it exits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Iterator

from .handlers import handled
from .runner import Observer
from .trial import Trial

_NOTICE = (
  b'\nsoft-reset: ends after the set-up or this step; Ctrl-C again ends it at '
  b'once.\n'
)


class Interrupts(Observer):
  """Remembers a signal until it is asked; a second one doesn't wait."""

  def __init__(self) -> None:
    self._was_given = False

  def note(self, signum: int, frame: types.FrameType | None) -> None:
    """The signals' handler."""
    del signum, frame
    if self._was_given:
      raise KeyboardInterrupt
    self._was_given = True
    # Not print: it may be what was interrupted.
    os.write(2, _NOTICE)

  def check(self) -> None:
    """Raises KeyboardInterrupt if there was a signal."""
    if self._was_given:
      raise KeyboardInterrupt

  def on_step(self, trial: Trial) -> None:
    """A run ends after the step in which the signal came."""
    self.check()


@contextlib.contextmanager
def deferred() -> Iterator[Interrupts]:
  """Handles Ctrl-C and SIGTERM by an `Interrupts` inside the block."""
  interrupts = Interrupts()
  with handled(interrupts.note, signal.SIGINT, signal.SIGTERM):
    yield interrupts

"""Ctrl-C and SIGTERM: both end a command, with the same message."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

from ..mini_algoperf.interrupts import handled

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
MESSAGE = 'soft-reset: interrupted.'


def ending_at_once() -> contextlib.AbstractContextManager[None]:
  """Inside the block they end the process immediately.

  For use while modules are imported: nothing has been written yet, and a
  KeyboardInterrupt can get lost in a callback of the import.
  """
  return handled(_end, signal.SIGINT, signal.SIGTERM)


def raising() -> contextlib.AbstractContextManager[None]:
  """Inside the block SIGTERM raises a KeyboardInterrupt, as Ctrl-C does."""
  return handled(signal.default_int_handler, signal.SIGTERM)


def _end(signum: int, frame: FrameType | None) -> None:
  del signum, frame
  # Neither print nor exit: either may be what was interrupted.
  os.write(2, f'{MESSAGE}\n'.encode())
  os._exit(INTERRUPTED)

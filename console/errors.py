"""How a command ends early: by an error of its user's, or by Ctrl-C."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import FrameType

import click

from ..mini_algoperf import user_code
from ..mini_algoperf.interrupts import ENDING, handled

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
PROJECT = 'reset-cycles'  # before what is said on stderr
MESSAGE = f'{PROJECT}: interrupted.'
# What bad input raises: a RuntimeError if pathlib finds a loop of links, the
# last two if numbers are too large.
_USERS = (ValueError, OSError, RuntimeError, OverflowError, MemoryError)


class RunFailed(Exception):
  """An error after training has begun; the message is for a user."""


class SetupError(click.ClickException):
  """The command line or one of its files is wrong; no step was taken."""


@contextlib.contextmanager
def setup_phase(
  submission_path: str | None = None, workload: str | None = None
) -> Iterator[None]:
  """Turns the errors of a set-up into SetupErrors; also a decorator.

  Only code before the first training step belongs inside: there, such an error
  means bad input. In a training step such an error is a bug and keeps its
  traceback. Errors in a user's submission or workload name the user's file.

  Raises:
    RunError: for an error in the user's own code that is not bad input.
  """
  own_code: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
  if workload is not None:
    own_code = user_code.reported(submission_path, workload, True)
  try:
    with own_code:
      yield
  except (BrokenPipeError, click.ClickException, user_code.RunError):
    raise
  except Exception as e:
    file = (workload or '').rpartition(':')[0]
    frames = user_code.frames_of(e, submission_path, file)
    if frames and isinstance(e, (ValueError, OSError)):
      place = f'{shortest(frames[-1].filename)}, line {frames[-1].lineno}'
      raise SetupError(f'{place}: {describe(e)}') from e
    if isinstance(e, _USERS):
      raise SetupError(describe(e)) from e
    raise


def shortest(path: str) -> str:
  """A path relative to the current folder, if it lies below it."""
  relative = os.path.relpath(os.path.realpath(path))
  return path if relative.startswith(os.pardir) else relative


def describe(error: BaseException) -> str:
  """An error's message, without the number of an OSError."""
  if isinstance(error, OSError) and error.filename and error.strerror:
    return f'{error.filename}: {error.strerror}.'
  return user_code.text_of(error) or type(error).__name__


def ended_by_signals() -> contextlib.AbstractContextManager[None]:
  """Inside the block Ctrl-C and its like end the process immediately.

  The block is for imports and plans. Nothing has been written yet, and a
  KeyboardInterrupt can get lost in a callback.
  """
  return handled(_end, *ENDING)


def _end(signum: int, frame: FrameType | None) -> None:
  del signum, frame
  # Neither print nor exit: either may be what was interrupted.
  os.write(2, f'{MESSAGE}\n'.encode())
  os._exit(INTERRUPTED)

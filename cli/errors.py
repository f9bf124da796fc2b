"""Which errors are the user's to fix, and how they are told in one line."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator

import click

from ..mini_algoperf import user_code

# What bad input raises: a RuntimeError if pathlib finds a loop of links, the
# last two if numbers are too large.
_USERS = (ValueError, OSError, RuntimeError, OverflowError, MemoryError)


class SetupError(click.ClickException):
  """The command line or one of its files is wrong; no step was taken."""


@contextlib.contextmanager
def setup_phase(
  submission_path: str | None = None, workload: str | None = None
) -> Iterator[None]:
  """Turns the errors of a set-up into SetupErrors.

  Only code before the first training step belongs inside: there, such an error
  means bad input. In a training step it is a bug and keeps its traceback.

  Args:
    submission_path: a module that is imported and called inside; whatever it
      raises is its author's to fix.
    workload: as given on the command line; for a file.py:ClassName, the same
      holds.
  """
  try:
    yield
  except (BrokenPipeError, click.ClickException, user_code.RunError):
    raise
  except (Exception, SystemExit) as e:
    files = (submission_path, (workload or '').rpartition(':')[0])
    own = [f for file in files if file for f in user_code.frames_of(file, e)]
    if own and isinstance(e, (ValueError, OSError)):
      raise SetupError(f'{_place(own[-1])}: {describe(e)}') from e
    if isinstance(e, _USERS):
      raise SetupError(describe(e)) from e
    if submission_path is None or isinstance(e, ModuleNotFoundError):
      raise
    # Called with what it does not take, say: none of its lines has run.
    said = f'{type(e).__name__}: {e}'.rstrip(': ')
    raise SetupError(f'--submission_path={submission_path}: {said}') from e


def _place(frame: traceback.FrameSummary) -> str:
  """File (relative if below the current folder) and line."""
  path = os.path.relpath(os.path.realpath(frame.filename))
  shown = frame.filename if path.startswith(os.pardir) else path
  return f'{shown}, line {frame.lineno}'


def describe(error: BaseException) -> str:
  """An error's message, without the number of an OSError."""
  if isinstance(error, OSError) and error.filename and error.strerror:
    return f'{error.filename}: {error.strerror}.'
  return str(error) or type(error).__name__

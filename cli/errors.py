"""Which errors are the user's to fix, and how they are told in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import traceback
from collections.abc import Iterator

from ..settings.checks import did_you_mean

# What bad input raises: a RuntimeError if pathlib finds a loop of links, the
# last two if numbers are too large.
_USERS = (ValueError, OSError, RuntimeError, OverflowError, MemoryError)
_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class SetupError(Exception):
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
  except (BrokenPipeError, SetupError):
    raise
  except (Exception, SystemExit) as e:
    file = (workload or '').rpartition(':')[0] or None
    own = _frames_of(submission_path, e) or _frames_of(file, e)
    if not own and isinstance(e, ModuleNotFoundError):
      raise
    if own:
      raise SetupError(f'{_place(own[-1])}: {_with_type(e)}') from e
    if isinstance(e, _USERS):
      raise SetupError(describe(e)) from e
    if submission_path is None:
      raise
    last = traceback.extract_tb(e.__traceback__)[-1]
    raise SetupError(
      f'--submission_path={submission_path}: {_with_type(e)} ({_place(last)})'
    ) from e


def _frames_of(
  submission_path: str | None, error: BaseException
) -> list[traceback.FrameSummary]:
  """The error's frames in the user's module, or in one in the same folder."""
  if submission_path is None:
    return []
  path = os.path.realpath(os.path.expanduser(submission_path))
  folder = os.path.dirname(path) + os.sep
  frames = []
  for frame in _frames(error):
    if frame.filename.startswith('<'):  # Python's own import
      continue
    file = os.path.realpath(frame.filename)
    is_beside = file.startswith(folder) and 'site-packages' not in file
    if file == path or (is_beside and not file.startswith(_OURS + os.sep)):
      frames.append(frame)
  return frames


def _frames(error: BaseException | None) -> Iterator[traceback.FrameSummary]:
  """The frames of an error, then those of the error it was raised from."""
  while error is not None:
    yield from traceback.extract_tb(error.__traceback__)
    error = error.__cause__


def _place(frame: traceback.FrameSummary) -> str:
  """File (relative if below the current folder) and line."""
  path = os.path.relpath(os.path.realpath(frame.filename))
  shown = frame.filename if path.startswith(os.pardir) else path
  return f'{shown}, line {frame.lineno}'


def _with_type(error: BaseException) -> str:
  if isinstance(error, (ValueError, OSError)):
    return describe(error)
  said = f'{type(error).__name__}: {error}'.rstrip(': ')
  return said + _meant(said)


def describe(error: BaseException) -> str:
  """An error's message, without the number of an OSError."""
  if isinstance(error, OSError) and error.filename and error.strerror:
    return f'{error.filename}: {error.strerror}.'
  return str(error) or type(error).__name__


def _meant(said: str) -> str:
  """A hint at the setting that a keyword may have been meant for, or ''."""
  match = re.search(r"unexpected keyword argument '(\w+)'", said)
  if not match:
    return ''
  from ..schedule_params import Hparams, ScheduleParams

  names = [
    field.name
    for kind in (ScheduleParams, Hparams)
    for field in dataclasses.fields(kind)
  ]
  return '.' + did_you_mean(match[1], names)


def one_line(message: str) -> str:
  """The message without its line breaks."""
  return ' '.join(message.split())

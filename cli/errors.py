"""Which errors are the user's to mend, and how they are said in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
import traceback
from collections.abc import Iterator

import reset_cycles

# What bad input raises; a RuntimeError where pathlib finds a loop of links.
_USERS = (ValueError, OSError, RuntimeError)
_OURS = os.path.dirname(os.path.realpath(reset_cycles.__file__))


class SetupError(Exception):
  """Something in the command line or its files is wrong; no step was taken."""


@contextlib.contextmanager
def setup_phase(submission_path: str | None = None) -> Iterator[None]:
  """Turns the errors of a set-up into SetupErrors.

  Only what runs before the first training step belongs inside: there, such an
  error means bad input. In a training step it is a bug and keeps its traceback.

  Args:
    submission_path: a module that is imported and called inside; whatever it
      raises is its author's to mend.
  """
  try:
    yield
  except (BrokenPipeError, SetupError):
    raise
  except (Exception, SystemExit) as e:
    if submission_path is None and not isinstance(e, _USERS):
      raise
    own = _frames_of(submission_path, e)
    if not own and isinstance(e, ModuleNotFoundError):
      raise
    raise SetupError(_describe(e, own)) from e


def _frames_of(
  submission_path: str | None, error: BaseException
) -> list[traceback.FrameSummary]:
  """Where in the user's own module, or one beside it, the error came up."""
  if submission_path is None:
    return []
  path = os.path.realpath(os.path.expanduser(submission_path))
  folder = os.path.dirname(path) + os.sep
  frames = []
  for frame in traceback.extract_tb(error.__traceback__):
    file = os.path.realpath(frame.filename)
    is_beside = file.startswith(folder) and 'site-packages' not in file
    if file == path or (is_beside and not file.startswith(_OURS + os.sep)):
      frames.append(frame)
  return frames


def _describe(error: BaseException, own: list[traceback.FrameSummary]) -> str:
  """File and line, if they are the user's or all that can be said; the error."""
  said = f'{error}{_meant(error)}'
  if not isinstance(error, _USERS):
    said = f'{type(error).__name__}: {said}'
    own = own or traceback.extract_tb(error.__traceback__)
  return f'{own[-1].filename}, line {own[-1].lineno}: {said}' if own else said


def _meant(error: BaseException) -> str:
  """The field of a configuration that a keyword may have been meant for."""
  match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
  if not match:
    return ''
  from ..schedule_params import Hparams, ScheduleParams

  names = [
    field.name
    for kind in (ScheduleParams, Hparams)
    for field in dataclasses.fields(kind)
  ]
  near = difflib.get_close_matches(match[1], names, n=1)
  return f'; did you mean {near[0]}?' if near else ''


def one_line(message: str) -> str:
  """The message without its line breaks."""
  return ' '.join(message.split())

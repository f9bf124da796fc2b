"""A user's Python files: their imports, and errors that name the user's lines.

Nothing here imports jax: the command line needs `RunError` before jax.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Iterator

from .files import WriteError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class RunError(Exception):
  """A run cannot go on; its message is for the user, one line or frames."""


class DataEndedError(ValueError):
  """There is no batch for a step; the message is one line, for a user."""


def import_file(
  prefix: str, path: pathlib.Path, folder: pathlib.Path | None = None
) -> types.ModuleType:
  """Imports a file once per process; sys.path stays as it is.

  Args:
    prefix: of the module's name. The name differs for each path: a folder
      called 'tests' or 'json' must not get in the way of another package of
      that name.
    path: the file.
    folder: of the package whose __init__.py the file is; None for a module.
  """
  place = folder or path
  digest = hashlib.sha256(str(place).encode('utf-8')).hexdigest()[:12]
  name = f'{prefix}_{digest}_' + re.sub(r'\W', '_', place.stem)
  if name in sys.modules:
    return sys.modules[name]
  inner = None if folder is None else [str(folder)]
  spec = importlib.util.spec_from_file_location(
    name, path, submodule_search_locations=inner
  )
  assert spec is not None and spec.loader is not None  # it ends in .py
  module = importlib.util.module_from_spec(spec)
  sys.modules[name] = module  # as an import does; pickles look the module up
  try:
    spec.loader.exec_module(module)
  except BaseException:
    del sys.modules[name]
    raise
  return module


def frames_of(
  error: BaseException, *paths: str | None
) -> list[traceback.FrameSummary]:
  """The error's frames in a user's files, or in those in the same folders."""
  files = [os.path.realpath(os.path.expanduser(path)) for path in paths if path]
  folders = tuple(os.path.dirname(path) + os.sep for path in files)
  frames: list[traceback.FrameSummary] = []
  causes: list[BaseException] = []
  cause: BaseException | None = error
  while cause is not None and cause not in causes:  # one can be its own
    causes.append(cause)
    for frame in traceback.extract_tb(cause.__traceback__):
      file = os.path.realpath(frame.filename)
      is_beside = file.startswith(folders) and 'site-packages' not in file
      is_ours = file.startswith(_PACKAGE + os.sep)
      if file in files or (is_beside and not is_ours):
        frames.append(frame)
    cause = cause.__cause__
  # '<string>' has no file, and a compiled module names one of its own.
  return [frame for frame in frames if os.path.isabs(frame.filename)]


@contextlib.contextmanager
def reported(
  submission_path: str | None, workload: str, before_first_step: bool
) -> Iterator[None]:
  """Turns what a user's code raises into a RunError.

  The message shows the frames of the user's files, not this project's frames.
  Without a frame in the user's files, one line names the files: a function was
  called with arguments that it does not take, or returned a wrong value. Where
  no file is the user's, an error is a bug of this project and keeps its
  traceback.

  Before the first step ValueErrors and OSErrors are bad input and pass, and an
  error without the user's frames is a ValueError.
  """
  try:
    yield
  except (KeyboardInterrupt, RunError, DataEndedError, WriteError):
    raise
  except BaseException as e:
    if isinstance(e, MemoryError) or 'RESOURCE_EXHAUSTED' in text_of(e):
      raise RunError(f'the memory is exhausted: {_first_line(e)}') from e
    if before_first_step and isinstance(e, (ValueError, OSError)):
      raise
    file = workload.rpartition(':')[0]
    if frames := frames_of(e, submission_path, file):
      shown = ''.join(traceback.format_list(frames))
      raise RunError(f'an error in your code:\n{shown}{message_of(e)}') from e
    # The command line says how to install what this project imports.
    is_missing = isinstance(e, ModuleNotFoundError) and not file
    flags = {'workload': file and workload, 'submission_path': submission_path}
    where = ' '.join(
      f'--{name}={value}' for name, value in flags.items() if value
    )
    if not where or is_missing or isinstance(e, BrokenPipeError):
      raise
    kind = ValueError if before_first_step else RunError
    raise kind(f'{where}: {message_of(e)}{_call(e)}') from e


def _call(error: BaseException) -> str:
  """The line of this project with the call that failed; it names the method."""
  stand_in = os.path.dirname(os.path.realpath(__file__))
  for frame in reversed(traceback.extract_tb(error.__traceback__)):
    file = os.path.realpath(frame.filename)
    if file.startswith(_PACKAGE + os.sep) and not file.startswith(stand_in):
      place = os.path.relpath(file, _PACKAGE)
      return f' ({place}, line {frame.lineno}: {frame.line})'
  return ''


def text_of(error: BaseException) -> str:
  """An error's message, also where its own __str__ fails."""
  return str(traceback.TracebackException(type(error), error, None))


def message_of(error: BaseException) -> str:
  """An error's class and the first line of its message."""
  if isinstance(error, SystemExit):
    return (
      f'SystemExit: sys.exit({error.code!r}) was called; a workload or a '
      'submission must not end the program.'
    )
  return f'{type(error).__name__}: {_first_line(error)}'


def _first_line(error: BaseException) -> str:
  return (text_of(error).strip() or type(error).__name__).splitlines()[0]

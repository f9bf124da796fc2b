"""Python files of the user's: imported, and their errors told as the user's.

Nothing here imports jax: the command line needs `RunError` before.
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

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class RunError(Exception):
  """A run cannot go on; the message is for its user, in one line or as frames."""


def import_file(
  prefix: str, path: pathlib.Path, folder: pathlib.Path | None = None
) -> types.ModuleType:
  """Imports a file once per process; sys.path stays as it is.

  Args:
    prefix: begins the name, of its own for each path: a folder called 'tests'
      or 'json' must not get in the way of another package of that name.
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
  sys.modules[name] = module  # as an import does; pickles look it up
  try:
    spec.loader.exec_module(module)
  except BaseException:
    del sys.modules[name]
    raise
  return module


def frames_of(path: str, error: BaseException) -> list[traceback.FrameSummary]:
  """The error's frames in a user's file, or in one in the same folder."""
  own = os.path.realpath(os.path.expanduser(path))
  folder = os.path.dirname(own) + os.sep
  frames: list[traceback.FrameSummary] = []
  cause: BaseException | None = error
  while cause is not None:
    for frame in traceback.extract_tb(cause.__traceback__):
      file = os.path.realpath(frame.filename)
      is_beside = file.startswith(folder) and 'site-packages' not in file
      is_ours = file.startswith(_PACKAGE + os.sep)
      if file == own or (is_beside and not is_ours):
        frames.append(frame)
    cause = cause.__cause__
  return [frame for frame in frames if not frame.filename.startswith('<')]


@contextlib.contextmanager
def reported(
  submission_path: str | None, workload: str, before_first_step: bool
) -> Iterator[None]:
  """Turns what a user's code raises into a RunError.

  The message shows the frames of the user's files, and none of this project's.
  Other errors pass: a bug of this project's keeps its traceback.

  Args:
    submission_path: the user's file; None for this project's submission.
    workload: as given on the command line; file.py:ClassName is the user's.
    before_first_step: ValueErrors and OSErrors pass, too: bad input, of which
      the command line says in one line where it is.

  Raises:
    RunError: in place of an error of the user's code; for a SystemExit, which
      would end the run without a word; when the memory is exhausted.
  """
  try:
    yield
  except (Exception, SystemExit) as e:
    if isinstance(e, MemoryError) or 'RESOURCE_EXHAUSTED' in str(e):
      raise RunError(f'the memory is exhausted: {_first_line(e)}') from e
    if before_first_step and isinstance(e, (ValueError, OSError)):
      raise
    # By name, since the one's module imports jax.
    names = {kind.__name__ for kind in type(e).__mro__}
    if names & {'RunError', 'DataEndedError', 'WriteError', 'BrokenPipeError'}:
      raise
    file = workload.rpartition(':')[0]
    paths = filter(None, (submission_path, file))
    if frames := [frame for path in paths for frame in frames_of(path, e)]:
      shown = ''.join(traceback.format_list(frames))
      raise RunError(f'an error in your code:\n{shown}{_said(e)}') from e
    if isinstance(e, SystemExit):
      raise RunError(_said(e)) from e
    if file:
      raise RunError(f'--workload={workload}: {_said(e)}') from e
    raise


def _first_line(error: BaseException) -> str:
  return (str(error) or type(error).__name__).splitlines()[0]


def _said(error: BaseException) -> str:
  if isinstance(error, SystemExit):
    return (
      f'SystemExit: sys.exit({error.code!r}) was called; a workload or a '
      'submission must not end the program.'
    )
  return f'{type(error).__name__}: {_first_line(error)}'

"""Imports a submission from the path of its file, as the benchmark does."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from .user_code import import_file

# The package around this one, by name alone: nothing of it is needed here.
_ROOT = __name__.split('.', maxsplit=1)[0]
OWN_SUBMISSION = f'{_ROOT}.submission'
# The start of the name under which a user's folder is imported.
_ALIAS = 'reset_cycles_submission'


class LoadedSubmission(NamedTuple):
  """The functions that the benchmark's API asks of a submission."""

  init_optimizer_state: Callable[..., Any]
  update_params: Callable[..., Any]
  data_selection: Callable[..., Any]
  get_batch_size: Callable[[str], int]
  prepare_for_eval: Callable[..., Any] | None = None
  get_eval_batch_size: Callable[[str], int] | None = None


_OPTIONAL = LoadedSubmission._field_defaults
REQUIRED = tuple(n for n in LoadedSubmission._fields if n not in _OPTIONAL)


def load_submission(submission_path: str | None) -> LoadedSubmission:
  """Imports a submission and checks that it has what the API asks for.

  None stands for this project's own submission. The file's folder must be a
  package, as the benchmark demands, so that the submission can import its
  helpers relatively. Nothing is added to sys.path.

  Raises:
    ValueError: if the file, the package around it, one of its imports or a
      function is missing, or the file is not valid Python.
  """
  if submission_path is None:
    module = importlib.import_module(OWN_SUBMISSION)
    return as_submission(module, OWN_SUBMISSION)
  path = pathlib.Path(submission_path).expanduser().resolve()
  where = f'submission_path={submission_path}'
  if submission_path and path.is_dir():
    raise ValueError(f'{where} is a folder: give a file.')
  if not path.is_file():
    raise ValueError(f'{where}: there is no such file.')
  if path.suffix != '.py':
    raise ValueError(f'{where}: must be a Python file (.py).')
  if not (path.parent / '__init__.py').is_file():
    raise ValueError(
      f'{where}: its folder must be a package, but has no __init__.py.'
    )
  try:
    module = importlib.import_module(_module_name(path))
  except (ImportError, SyntaxError) as e:
    message = f'{where}: cannot be imported: {e}.'
    own_name = str(getattr(e, 'name', '') or '').startswith(_ALIAS)
    if own_name or 'relative import' in str(e):
      message += (
        " Relative imports serve inside the project's own folder only: "
        f'elsewhere write `from {OWN_SUBMISSION} import make_submission`.'
      )
    raise ValueError(message) from e
  return as_submission(module, submission_path)


def as_submission(module: object, where: str) -> LoadedSubmission:
  """The functions of a module, or of anything that has them as attributes.

  ValueError names all that are missing, and `where`.
  """
  functions: Any = {
    n: getattr(module, n, None) for n in LoadedSubmission._fields
  }
  missing = [name for name in REQUIRED if not callable(functions[name])]
  if missing:
    raise ValueError(
      f'submission_path={where}: has no function {", ".join(missing)}; '
      f'a submission needs {", ".join(REQUIRED)}.'
    )
  return LoadedSubmission(**functions)


def _module_name(path: pathlib.Path) -> str:
  """Name under which the file can be imported; its package is imported."""
  top = path.parent
  while (top.parent / '__init__.py').is_file():
    top = top.parent
  inner = path.relative_to(top).with_suffix('').parts
  dotted = [name for name in inner if '.' in name]
  if dotted:
    raise ValueError(
      f'submission_path={path}: {dotted[0]!r} has a dot, which no Python '
      'package may have in its name.'
    )
  package = _ROOT
  if top != pathlib.Path(str(sys.modules[_ROOT].__file__)).resolve().parent:
    package = import_file(_ALIAS, top / '__init__.py', top).__name__
  return '.'.join((package, *inner))

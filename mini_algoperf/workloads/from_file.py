"""A workload of the user's: a class in a Python file, named FILE.py:CLASS."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import re
import sys
import types

from .base import MiniWorkload

_MODULE = 'soft_reset_workload'
# What the generation's mixin adds when a workload is made.
_OF_GENERATION = {'init_model_fn', 'model_fn'}


def is_file(given: str) -> bool:
  """Whether a workload is given as a file, not by its name."""
  return ':' in given or given.endswith('.py') or '/' in given


def load_class(given: str) -> type[MiniWorkload]:
  """Imports the class; the file runs once per process and folder.

  Nothing is added to sys.path: the file imports what is installed. The targets
  are read from, and set in, `<file>_targets.json` beside it.

  Args:
    given: 'path/to/file.py:ClassName'.

  Raises:
    ValueError: there is no such file or class, the file cannot be imported, or
      the class is not a complete workload.
  """
  file, _, class_name = given.rpartition(':')
  if not file or not class_name.isidentifier():
    raise ValueError(
      f'workload: {given} must name a file and a class in it: file.py:ClassName.'
    )
  path = pathlib.Path(file).expanduser().resolve()
  if path.suffix != '.py' or not path.is_file():
    raise ValueError(f'workload: {file}: there is no such Python file (.py).')
  module = _import_file(path, given)
  kind = getattr(module, class_name, None)
  if not _is_workload(kind):
    here = [name for name, value in vars(module).items() if _is_workload(value)]
    raise ValueError(
      f'workload: {file} has no subclass {class_name} of MiniWorkload; it has '
      f'{", ".join(here) or "none"}.'
    )
  _check(kind, given)
  kind.targets_file = path.with_name(f'{path.stem}_targets.json')
  kind._given = given
  return kind


def _is_workload(value: object) -> bool:
  return isinstance(value, type) and issubclass(value, MiniWorkload)


def _import_file(path: pathlib.Path, given: str) -> types.ModuleType:
  digest = hashlib.sha256(str(path).encode('utf-8')).hexdigest()[:12]
  name = f'{_MODULE}_{digest}_{path.stem}'
  if name in sys.modules:
    return sys.modules[name]
  spec = importlib.util.spec_from_file_location(name, path)
  module = importlib.util.module_from_spec(spec)
  sys.modules[name] = module  # as an import does; pickles look it up
  try:
    spec.loader.exec_module(module)
  except BaseException as e:
    del sys.modules[name]
    if not isinstance(e, (Exception, SystemExit)):
      raise
    raise ValueError(
      f'workload: {given} cannot be imported: {type(e).__name__}: {e}.'
    ) from e
  return module


def _check(kind: type[MiniWorkload], given: str) -> None:
  """Refuses a class that could not be made, or has no usable name."""
  attributes = (
    'name',
    'metric_rises',
    'default_batch_size',
    'eval_every_steps',
  )
  missing = set(kind.__abstractmethods__) - _OF_GENERATION
  missing |= {name for name in attributes if not hasattr(kind, name)}
  if missing:
    raise ValueError(
      f'workload: {given} is not complete; it lacks '
      f'{", ".join(sorted(missing))}.'
    )
  if not isinstance(kind.name, str) or not re.fullmatch(r'\w+', kind.name):
    raise ValueError(
      f'workload: {given}: name={kind.name!r} must be letters, digits and _, '
      'since folders are called after it.'
    )

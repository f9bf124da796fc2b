"""The folder that is handed in: files as they stand, and the line in force."""

from __future__ import annotations

import ast
import dataclasses
import os
import pathlib
import pprint
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import _HOMES, __version__
from . import fresh

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

ROOT = pathlib.Path(__file__).resolve().parents[1]
FORM = 'submission_info.yml'
SEARCH_SPACE_FILE = 'tuning_search_space.json'
_PACKAGE = __name__.partition('.')[0]
_IN_FORCE = 'SCHEDULE_PARAMS'


def modules(
  start: pathlib.Path, changed: Mapping[pathlib.Path, bytes]
) -> dict[pathlib.Path, bytes]:
  """The texts of a file and of its imports from its folder and this package.

  Imports for types, and those inside functions, count as well.
  """
  texts: dict[pathlib.Path, bytes] = {}
  to_visit = [start]
  while to_visit:
    path = to_visit.pop()
    if path in texts:
      continue
    texts[path] = changed.get(path) or path.read_bytes()
    top = start.parent if path.is_relative_to(start.parent) else ROOT
    folders = (p for p in path.parents if p.is_relative_to(top))
    packages = (folder / '__init__.py' for folder in folders)
    to_visit += filter(pathlib.Path.is_file, packages)
    if path != ROOT / '__init__.py':  # imports a name when it is asked for it
      for node in ast.walk(ast.parse(texts[path])):
        if isinstance(node, ast.ImportFrom):
          to_visit += _sources(node, path)
  return dict(sorted(texts.items()))


def _sources(
  node: ast.ImportFrom, path: pathlib.Path
) -> Iterator[pathlib.Path]:
  """The files that `from … import …` may mean, in a module at a path."""
  words = (node.module or '').split('.')
  if node.level:
    base = path.parents[node.level - 1].joinpath(*words)
  elif words[0] == _PACKAGE:
    base = ROOT.joinpath(*words[1:])
  else:
    return
  names = [alias.name for alias in node.names]
  if base == ROOT:
    names = [_HOMES.get(name, name) for name in names]
  for place in (base, *(base / name for name in names)):
    for file in (place / '__init__.py', place.parent / f'{place.name}.py'):
      if file.is_file() and place != ROOT:
        yield file


def contents(
  title: str,
  settings: ScheduleParams,
  folder: str,
  user_file: pathlib.Path | None = None,
  search_space: bytes | None = None,
) -> dict[str, bytes]:
  """The files of a submission, by their paths in its folder.

  With a search space, the submission is for the external ruleset. The form
  names and describes MUON; other settings get their own name and description.

  There is no `__init__.py` above the submission's own. The benchmark does not
  need one, and would take the `__pycache__` beside it for a submission. A
  user's file with the settings becomes `submission.py`, and this package a
  folder beside it.

  Raises:
    ValueError: if the settings cannot be put in force, or a module that
      the user's file imports cannot be taken along.
  """
  from ..schedule_params import MUON

  files = {}
  if user_file is None:
    place = ROOT / 'schedule_params.py'
    changed = {place: in_force(place.read_bytes(), settings)}
    for path, text in modules(ROOT / 'submission.py', changed).items():
      files[path.relative_to(ROOT).as_posix()] = text
  else:
    for path, text in modules(user_file, {}).items():
      is_beside = path.is_relative_to(user_file.parent)
      is_own = is_beside and user_file.is_relative_to(ROOT)
      if path.is_relative_to(ROOT) and not is_own:
        files[f'{_PACKAGE}/{path.relative_to(ROOT).as_posix()}'] = text
      elif is_beside:
        name = path.relative_to(user_file.parent).as_posix()
        name = 'submission.py' if path == user_file else name
        files[name] = _relative(path, text, user_file.parent)
      else:
        raise ValueError(
          f'{path}: what {user_file} imports must lie in its folder.'
        )
  info = (ROOT / FORM).read_text(encoding='utf-8')
  line = f'submission_folder: "{folder}"'
  info = re.sub('(?m)^submission_folder: .*$', line, info)
  if settings != MUON:  # which the form describes
    about = f'Learning-rate cycles: the settings {title} of reset-cycles'
    line = f'description: "{about} {__version__}."'
    info = re.sub('(?m)^description: .*$', line, info)
    line = f'submission_name: "{folder}"'
    info = re.sub('(?m)^submission_name: .*$', line, info)
  ruleset, extra = 'self-tuning', dict[str, bytes]()
  if search_space is not None:
    ruleset, extra = 'external', {SEARCH_SPACE_FILE: search_space}
    info = re.sub('(?m)^ruleset: .*$', f'ruleset: "{ruleset}"', info)
    info = info.replace('set to a share of', 'set to a tuned share of')
  readme = (
    f'An AlgoPerf submission in JAX for the {ruleset} ruleset: learning rate '
    f'cycles with soft resets; settings {title}, reset-cycles {__version__}.\n'
  )
  return {
    **files,
    **extra,
    FORM: info.encode(),
    'LICENSE': (ROOT / 'LICENSE').read_bytes(),
    'README.md': readme.encode(),
  }


def in_force(text: bytes, settings: ScheduleParams) -> bytes:
  """schedule_params.py with settings in force; ValueError without its line."""
  tree = ast.parse(text)
  stored = [
    node
    for node in ast.walk(tree)
    if isinstance(node, ast.Name)
    and node.id == _IN_FORCE
    and isinstance(node.ctx, ast.Store)
  ]
  assignments: list[Any] = [
    statement
    for statement in tree.body
    if getattr(statement, 'value', None)
    and getattr(statement, 'targets', [getattr(statement, 'target', None)])
    == stored
  ]
  if len(assignments) != 1:
    raise ValueError(
      f'schedule_params.py: {_IN_FORCE} must be assigned once, in a statement '
      f'of its own such as {_IN_FORCE} = THESIS.'
    )
  (old,) = assignments
  start = _offset(text, old.lineno, old.col_offset)
  end = _offset(text, old.end_lineno, old.end_col_offset)
  return text[:start] + _assignment(settings).encode() + text[end:]


def _offset(text: bytes, line: int, column: int) -> int:
  """Where ast's line and column are in a text."""
  return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column


def _assignment(settings: ScheduleParams) -> str:
  """The statement that puts settings in force, after the imports it needs."""
  from .. import schedule_params

  for name in ('MUON', 'SOFT_RESET', 'THESIS'):
    if settings == getattr(schedule_params, name):
      return f'{_IN_FORCE} = {name}'
  imports = sorted(
    f'from .{kind.__module__.partition(".")[2]} import {kind.__name__}\n'
    for kind in _classes(settings)
    if getattr(schedule_params, kind.__name__, None) is not kind
  )
  return f'{"".join(imports)}{_IN_FORCE} = {pprint.pformat(settings)}'


def _classes(value: Any) -> set[type]:
  """The classes of a setting and of its fields, at any depth."""
  if isinstance(value, tuple):
    return set().union(*map(_classes, value))
  if not dataclasses.is_dataclass(value):
    return set()
  inner = (getattr(value, field.name) for field in dataclasses.fields(value))
  return {type(value)}.union(*map(_classes, inner))


def _relative(path: pathlib.Path, text: bytes, folder: pathlib.Path) -> bytes:
  """A user's module, importing this package from the folder that it is put in.

  ValueError for an import that has no relative form.
  """
  up = '.' * len(path.relative_to(folder).parts)
  edits = []  # where, how many dots are there, what is to be there
  for node in ast.walk(ast.parse(text)):
    if isinstance(node, ast.Import):
      if any(f'{a.name}.'.startswith(f'{_PACKAGE}.') for a in node.names):
        raise ValueError(
          f'{path}, line {node.lineno}: write `from {_PACKAGE} import …`, '
          f'which an export makes relative, for `import {_PACKAGE}`.'
        )
    elif isinstance(node, ast.ImportFrom):
      start = _offset(text, node.lineno, node.col_offset)
      base = path.parents[max(node.level - 1, 0)]
      if node.level and base.is_relative_to(ROOT) and base in folder.parents:
        new = up + '.'.join((_PACKAGE, *base.relative_to(ROOT).parts))
        new += '.' if node.module else ''
        edits.append((text.index(b'.', start), node.level, new))
      elif f'{node.module}.'.startswith(f'{_PACKAGE}.') and not node.level:
        edits.append((text.index(_PACKAGE.encode(), start), 0, up))
  for place, dots, new in sorted(edits, reverse=True):
    text = text[:place] + new.encode() + text[place + dots :]
  return text


def check_imports(
  folder: pathlib.Path, module: str, settings: ScheduleParams
) -> None:
  """Imports an exported submission where this package is missing, and compares.

  ValueError if the submission cannot be imported, or has other settings.
  """
  absolute = map(pathlib.Path, filter(os.path.isabs, sys.path))
  others = [path for path in absolute if path.resolve() != ROOT]
  script = [sys.executable, '-I', '-B', fresh.__file__]
  done = subprocess.run(
    [*script, _PACKAGE, module, folder, *others],
    cwd=folder,
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode:
    messages = done.stderr.splitlines() or [f'exit status {done.returncode}']
    raise ValueError(f'What is exported cannot be imported: {messages[-1]}')
  if done.stdout.splitlines()[-1] != fresh.settings_text(settings):
    raise ValueError('What is exported has other settings than asked for.')

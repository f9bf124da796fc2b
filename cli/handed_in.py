"""The folder that is handed in: files as they stand, and the numbers."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from .. import _HOMES, __version__
from . import algorithm, fresh

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

ROOT = pathlib.Path(__file__).resolve().parents[1]
FORM = 'submission_info.yml'
SEARCH_SPACE_FILE = 'tuning_search_space.json'
_PACKAGE = __name__.partition('.')[0]
_IN_FORCE = 'SCHEDULE_PARAMS'
_TYPE = 'ScheduleParams'


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

  Modules are those of this package, as they stand, but for two:
  schedule_params.py has no settings but these, and `__init__.py` no names that
  stay at home. A user's file keeps the settings that it may take.

  There is no `__init__.py` above the submission's own. The benchmark does not
  need one, and would take the `__pycache__` beside it for a submission. A
  user's file with the settings becomes `submission.py`, and this package a
  folder beside it.

  Raises:
    ValueError: if a module that the user's file imports cannot be taken along.
  """
  from ..schedule_params import MUON

  files = {}
  if user_file is None:
    place = ROOT / 'schedule_params.py'
    numbers = with_numbers(place.read_text(encoding='utf-8'), settings)
    changed = {place: numbers.encode()}
    for path, text in modules(ROOT / 'submission.py', changed).items():
      files[path.relative_to(ROOT).as_posix()] = text
    files['__init__.py'] = _package_file([])
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
    homes = {path.removesuffix('/__init__.py') for path in files}
    homes = {path.removesuffix('.py') for path in homes}
    names = [n for n, home in _HOMES.items() if f'{_PACKAGE}/{home}' in homes]
    files[f'{_PACKAGE}/__init__.py'] = _package_file(names)
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
  readme = algorithm.page(settings, title, ruleset)
  return {
    **files,
    **extra,
    FORM: info.encode(),
    'LICENSE': (ROOT / 'LICENSE').read_bytes(),
    'README.md': readme.encode(),
  }


def _package_file(names: Iterable[str]) -> bytes:
  """An __init__.py with those names of this package that go along."""
  about = '"""Learning-rate cycles with soft resets, for AlgoPerf."""\n'
  lines = (f'from .{_HOMES[name]} import {name} as {name}\n' for name in names)
  return '\n'.join(filter(None, (about, ''.join(lines)))).encode()


def with_numbers(text: str, settings: ScheduleParams) -> str:
  """schedule_params.py with the type of settings, and these settings alone.

  The type stays as it stands. Other settings, and imports that only they need,
  stay at home.
  """
  tree = ast.parse(text)
  (kind,) = (n for n in tree.body if getattr(n, 'name', '') == _TYPE)
  lines = text.splitlines(keepends=True)
  above_it = tree.body[: tree.body.index(kind)]
  froms = [node for node in above_it if isinstance(node, ast.ImportFrom)]
  first, *_, last = imports = [node for node in froms if node.level == 1]
  above = ''.join(lines[: first.lineno - 1])
  body = ''.join(lines[last.end_lineno : kind.end_lineno])
  block = f'{_IN_FORCE} = {algorithm.written(settings, "", f"{_IN_FORCE} = ")}'
  homes = {
    kind.__name__: kind.__module__.partition('.')[2]
    for kind in algorithm.classes(settings)
    if kind.__name__ != _TYPE
  }
  homes |= {a.name: str(n.module) for n in imports for a in n.names}
  nodes = ast.walk(ast.parse(body + block))
  used = {n.id for n in nodes if isinstance(n, ast.Name)} & {*homes}
  own = ''
  for home in sorted({homes[name] for name in used}):
    names = sorted(name for name in used if homes[name] == home)
    line = f'from .{home} import {", ".join(names)}\n'
    below = ''.join(f'  {name},\n' for name in names)
    own += line if len(line) <= 81 else f'from .{home} import (\n{below})\n'
  about = '# The settings in force. README.md has what stands elsewhere.'
  return f'{above}{own}{body}\n\n{about}\n{block}\n'


def _offset(text: bytes, line: int, column: int) -> int:
  """Where ast's line and column are in a text."""
  return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column


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

"""What a submission needs of the package: modules, and what of them is used."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What the benchmark takes from a submission.
_FUNCTIONS = (
  *('init_optimizer_state', 'update_params', 'prepare_for_eval'),
  *('data_selection', 'get_batch_size'),
)
_WIDTH = 80  # characters of a line
# Statements that bind no name of the module's own: the docstring, imports.
_OTHERS = (ast.Expr, ast.Import, ast.ImportFrom, ast.If)


class _Module:
  """A module, its top-level statements found by the names that they bind."""

  def __init__(self, path: pathlib.Path, text: str) -> None:
    self.path, self.lines = path, text.splitlines(keepends=True)
    self.body = ast.parse(text).body
    self.statements: dict[str, ast.stmt] = {}
    # Names from the package: (module, name in it), '' for the module itself.
    self.imports: dict[str, tuple[pathlib.Path, str]] = {}
    for statement in self.body:
      if not isinstance(statement, _OTHERS) and not _bound(statement):
        raise ValueError(
          f'{path}, line {statement.lineno}: outside functions, what is handed '
          'in may import, define and assign names only.'
        )
      for name in _bound(statement):
        self.statements[name] = statement
      for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.level:
          for alias in node.names:
            source = self._source(node, alias.name)
            self.imports[alias.asname or alias.name] = source

  def _source(
    self, node: ast.ImportFrom, name: str
  ) -> tuple[pathlib.Path, str]:
    folder = self.path.parents[node.level - 1]
    base = folder.joinpath(*filter(None, (node.module or '').split('.')))
    file = (base / name).with_suffix('.py')
    if file.is_file():
      return file, ''
    return base.with_suffix('.py'), name

  def used(self, name: str) -> Iterator[tuple[pathlib.Path, str]]:
    """(module, name) of all that the statement that binds a name refers to."""
    if name in self.imports:
      yield self.imports[name]
    elif name in self.statements:
      for node in ast.walk(self.statements[name]):
        if isinstance(node, ast.Name):
          yield self.path, node.id
        elif isinstance(node, ast.Attribute) and isinstance(
          node.value, ast.Name
        ):
          file, inside = self.imports.get(node.value.id, (self.path, node.attr))
          if not inside:
            yield file, node.attr

  def text(self, names: set[str]) -> str:
    """The source of what binds one of the names, with its docstring."""
    kept, end = [], 0
    for statement in self.body:
      above, end = end, statement.end_lineno or 0
      lines = ''.join(self.lines[above:end])
      if isinstance(statement, ast.Expr):  # the docstring
        kept.append(lines)
      elif isinstance(statement, (ast.Import, ast.ImportFrom, ast.If)):
        kept.append(_without(statement, lines, names))
      elif names.intersection(_bound(statement)):
        kept.append(lines)
    return ''.join(kept)


def _bound(statement: ast.stmt) -> list[str]:
  """The names that a top-level statement binds, but for an import's."""
  if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
    return [statement.name]
  if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
    return []
  stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
  return [node.id for node in stored if isinstance(node.ctx, ast.Store)]


def _without(statement: ast.stmt, lines: str, names: set[str]) -> str:
  """The lines of an import, without the names that nothing uses."""
  imports = [n for n in ast.walk(statement) if isinstance(n, ast.alias)]
  kept = [a for a in imports if (a.asname or a.name).split('.')[0] in names]
  is_future = getattr(statement, 'module', '') == '__future__'
  if kept == imports or is_future:
    return lines
  if not kept or not isinstance(statement, ast.ImportFrom):
    return lines if kept else ''
  above = lines[: len(lines) - len(lines.lstrip('\n'))]
  start = f'from {"." * statement.level}{statement.module or ""} import '
  line = start + ', '.join(map(ast.unparse, kept))
  if len(line) > _WIDTH:
    inside = ''.join(f'  {ast.unparse(alias)},\n' for alias in kept)
    line = f'{start}(\n{inside})'
  return f'{above}{line}\n'


def closure(changed: Mapping[str, str]) -> dict[str, str]:
  """The submission's modules, with only what the benchmark can reach in them.

  Top-level statements that bind a name stay if one that stays uses the name,
  beginning with the functions that the benchmark takes. They stay as they are
  written.

  Args:
    changed: texts of modules that are not the package's own, by their paths.

  Returns:
    Texts by their paths in the package.
  """
  modules: dict[pathlib.Path, _Module] = {}
  names: dict[pathlib.Path, set[str]] = {}
  start = ROOT / 'submission.py'
  to_visit = [(start, name) for name in _FUNCTIONS]
  while to_visit:
    path, name = to_visit.pop()
    if path not in modules:
      if not path.is_file():  # a module's attribute of its own
        continue
      text = changed.get(path.relative_to(ROOT).as_posix())
      modules[path] = _Module(path, text or path.read_text(encoding='utf-8'))
      names[path] = {
        node.id
        for statement in modules[path].body
        if isinstance(statement, ast.If)
        for node in ast.walk(statement.test)
        if isinstance(node, ast.Name)
      }
      package = path.with_name('__init__.py')
      to_visit += [(package, '')] if package.parent != ROOT else []
    if name not in names[path]:
      names[path].add(name)
      to_visit += modules[path].used(name)
  return {
    path.relative_to(ROOT).as_posix(): modules[path].text(found)
    for path, found in sorted(names.items())
  }

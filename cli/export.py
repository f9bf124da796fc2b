"""`soft-reset export`: the folder to submit to the benchmark."""

from __future__ import annotations

import ast
import dataclasses
import json
import keyword
import pathlib
import pprint
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..mini_algoperf import files
from . import errors, flags, signals
from .plan import params_file, read_settings, settings_name

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = __name__.split('.', maxsplit=1)[0]
_FORM = 'submission_info.yml'
# The package's own exports names for users' loops, which are not submitted.
_INIT = (
  '"""A self-tuning submission: learning rate cycles with soft resets."""\n'
)
_IN_FORCE = 'SCHEDULE_PARAMS = SOFT_RESET\n'
# Ruleset -> the folder that the benchmark's checker expects, the form's word.
_RULESETS = {
  'self': ('self_tuning', 'self-tuning'),
  'external': ('external_tuning', 'external-tuning'),
}


def _usable_name(
  ctx: click.Context, param: click.Parameter, name: str | None
) -> str | None:
  if name is None:
    return None
  if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name):
    raise click.BadParameter(
      f'{name} must be lower-case letters, digits and _, begin with a letter '
      'and be no Python keyword: it becomes part of module names.',
      ctx,
      param,
    )
  return name


@click.command(cls=flags.Command, short_help='write the folder to hand in')
@flags.option(
  'out',
  flags.FILE,
  metavar='DIR',
  required=True,
  help='Folder to write; an existing one must be empty.',
)
@settings_name
@params_file
@flags.option(
  'name',
  callback=_usable_name,
  help="Name of the submission's folder. Default: that of the settings.",
)
@flags.option('authors', help='Goes to submission_info.yml.')
@flags.option('affiliation', help='Goes to submission_info.yml.')
@flags.option(
  'tuning_ruleset',
  list(_RULESETS),
  default='self',
  help='external writes DIR/external_tuning/NAME.',
)
def export(
  out: str,
  settings: str | None,
  params: str | None,
  name: str | None,
  authors: str | None,
  affiliation: str | None,
  tuning_ruleset: str,
) -> int:
  """Writes DIR/self_tuning/NAME, the folder to submit to the benchmark.

  It holds what submission.py imports under the chosen settings, the search
  space, submission_info.yml and the licence, as the benchmark's checker and its
  submission_runner.py expect them.
  """
  with signals.ending_at_once(), errors.setup_phase():
    folder = _free_folder(out)
    title, _, chosen = read_settings(settings, params)
    own_name = name or title
    place, word = _RULESETS[tuning_ruleset]
    form = {'submission_folder': own_name, 'ruleset': word}
    form |= {'authors': authors} if authors else {}
    form |= {'affiliations': affiliation} if affiliation else {}
    contents = handed_in(title, chosen, form)
  own = folder / place / own_name
  try:
    with files.whole_folder(folder) as temporary:
      for file, text in contents.items():
        path = temporary / own.relative_to(folder) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
  except OSError as e:
    why = f'cannot be written: {e.strerror}.'
    raise errors.SetupError(f'--out={out} {why}') from e
  code = [text for file, text in contents.items() if file.endswith('.py')]
  lines = sum(text.count('\n') for text in code)
  path = own.relative_to(folder.parent) / 'submission.py'
  print(
    f'{own}: {title}, {len(code)} modules with {lines:,} lines, and '
    f"{len(contents) - len(code)} other files. Copied to the benchmark's folder "
    f'submissions/, its runner takes:\n  --tuning_ruleset={tuning_ruleset} '
    f'--submission_path=submissions/{path}'
  )
  if not authors:
    print(f'Write the authors into {_FORM} before handing it in (--authors).')
  return 0


def _free_folder(out: str) -> pathlib.Path:
  folder = pathlib.Path(out).expanduser().resolve()
  if not out or (
    folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
  ):
    raise ValueError(
      f'--out={out} exists and is not an empty folder. Nothing is replaced: '
      'give another one, or remove it.'
    )
  return folder


def handed_in(
  title: str, params: ScheduleParams, form: dict[str, str]
) -> dict[str, str]:
  """The files of a submission, by their paths in its folder.

  There is no `__init__.py` above the submission's own: the benchmark imports it
  by its path and needs none, and the `__pycache__` next to one would be taken
  for a submission without `submission.py`.

  Args:
    title: of the settings.
    params: the settings; their classes are this package's.
    form: what to replace in submission_info.yml.
  """
  used = {kind.__module__: kind for kind in _classes(params)}
  texts = {'__init__.py': _INIT}
  for file in closure('submission', *(name.partition('.')[2] for name in used)):
    texts[file] = (ROOT / file).read_text(encoding='utf-8')
  if _IN_FORCE not in texts['schedule_params.py']:
    raise ValueError(f'schedule_params.py must have a line {_IN_FORCE!r}.')
  texts['schedule_params.py'] = texts['schedule_params.py'].replace(
    _IN_FORCE, _assignment(params)
  )
  described = (ROOT / _FORM).read_text(encoding='utf-8')
  for key, value in form.items():
    line = f'{key}: {json.dumps(value, ensure_ascii=False)}'
    own = re.escape(key)
    kept = re.split(rf'(?m)^{own}: .*$', described)
    described = line.join(kept)
  return {
    **dict(sorted(texts.items())),
    'tuning_search_space.json': search_space(params),
    _FORM: described,
    'LICENSE': (ROOT / 'LICENSE').read_text(encoding='utf-8'),
    'README.md': 'A self-tuning AlgoPerf submission in JAX: learning rate cycles '
    f'with soft resets; settings {title}, reset-cycles {__version__}.\n',
  }


def closure(*modules: str) -> list[str]:
  """The files that modules of this package import, with these, sorted.

  Args:
    *modules: names below the package, such as 'core.run'.
  """
  found: set[str] = set()
  to_read = list(modules)
  while to_read:
    parts = to_read.pop().split('.')
    path = ROOT.joinpath(*parts)
    file = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
    name = file.relative_to(ROOT).as_posix()
    if name in found or not file.is_file():
      continue
    found.add(name)
    to_read += ['.'.join(parts[:i]) for i in range(1, len(parts))]
    to_read += _imported(file)
  return sorted(found)


def _imported(file: pathlib.Path) -> Iterator[str]:
  """What a file imports of the package; some names are none of modules."""
  folder = file.relative_to(ROOT).parts[:-1]
  for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
    if isinstance(node, ast.ImportFrom) and node.level:
      base = folder[: len(folder) + 1 - node.level]
      base += tuple(node.module.split('.')) if node.module else ()
      if base:
        yield '.'.join(base)
      for alias in node.names:
        yield '.'.join((*base, alias.name))


def _classes(value: Any) -> set[type]:
  """The classes of a setting and of all that is in it."""
  if isinstance(value, tuple):
    return set().union(*map(_classes, value))
  if not dataclasses.is_dataclass(value):
    return set()
  inner = (getattr(value, field.name) for field in dataclasses.fields(value))
  return {type(value)}.union(*map(_classes, inner))


def _assignment(params: ScheduleParams) -> str:
  """The lines of schedule_params.py that put settings in force."""
  from .. import schedule_params

  for name in ('SOFT_RESET', 'THESIS'):
    if params == getattr(schedule_params, name):
      return f'SCHEDULE_PARAMS = {name}\n'
  imports = sorted(
    f'from .{kind.__module__.partition(".")[2]} import {kind.__name__}\n'
    for kind in _classes(params)
    if not hasattr(schedule_params, kind.__name__)
  )
  return f'{"".join(imports)}\nSCHEDULE_PARAMS = {pprint.pformat(params)}\n'


def search_space(params: ScheduleParams) -> str:
  """tuning_search_space.json: the one point that changes nothing.

  A number in which cycles differ is not in it, but for the learning rate, whose
  ratios between cycles stay.
  """
  names = [f.name for f in dataclasses.fields(params.cycles[0].hparams)]
  space = {}
  for name in names:
    values = [getattr(cycle.hparams, name) for cycle in params.cycles]
    if name == 'learning_rate' or len(set(values)) == 1:
      space[name] = {'feasible_points': values[:1]}
  return json.dumps(space, indent=2) + '\n'

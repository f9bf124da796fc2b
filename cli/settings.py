"""`soft-reset schedule` and `export`: settings shown, and handed in."""

from __future__ import annotations

import dataclasses
import json
import keyword
import pathlib
import pprint
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..mini_algoperf import files
from ..studies import paths
from . import errors
from .closure import ROOT, closure
from .flags import PATH, command, option, overwrite

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

_FORM = 'submission_info.yml'
_SETTINGS = 'schedule_params.py'
# The package's own exports names for users' loops, which are not submitted.
_INIT = (
  '"""A self-tuning submission: learning rate cycles with soft resets."""\n'
)
_IN_FORCE = 'SCHEDULE_PARAMS = SOFT_RESET\n'


def _settings(function: Callable[..., Any]) -> Callable[..., Any]:
  """Adds the flags that say which settings are meant."""
  name = 'soft_reset (the default), thesis, or a run that `experiments` shows.'
  file = "JSON file: fields of ScheduleParams to replace, or a run's settings."
  return option('settings', name)(option('params', file, PATH)(function))


def _read_settings(
  name: str | None, file: pathlib.Path | None
) -> tuple[str, int | None, ScheduleParams]:
  """A name that can be a folder's, the file's step_hint, and the settings.

  Raises:
    ValueError: if both are given, or what is given is none.
  """
  from ..core.checks import did_you_mean
  from ..experiments.settings import RUNS
  from ..parts import settings_json
  from ..schedule_params import SCHEDULE_PARAMS, SOFT_RESET, THESIS

  if name is not None and file:
    raise ValueError('--settings and --params contradict each other: give one.')
  if file:
    paths.check_file(file)
    return 'own', *settings_json.read_file(file, SCHEDULE_PARAMS)
  known = {'soft_reset': SOFT_RESET, 'thesis': THESIS, **RUNS}
  name = 'soft_reset' if name is None else name
  if name not in known:
    names, near = ', '.join(known), did_you_mean(name, known)
    raise ValueError(f'--settings={name}: must be one of {names}.{near}')
  return name, None, known[name]


@command
@_settings
@option('step_hint', "Default: the file's.", click.IntRange(1, 10**7))
@option('out', 'PNG of the learning rate.', PATH)
@overwrite
def schedule(
  settings: str | None,
  params: pathlib.Path | None,
  step_hint: int | None,
  out: pathlib.Path | None,
  overwrite: bool,
) -> None:
  """Shows the learning rate that a chain of cycles plans.

  Its cycles, what of them evaluations decide, a picture, and what a bound for
  SGD on convex functions says about its shape.
  """
  if step_hint is None and params is None:
    raise click.UsageError('--step_hint is missing: give the steps.')
  with errors.ended_by_signals():
    import numpy as np

    from ..studies import plans
    from ..studies.preview import plan as preview
  picture = out and paths.new_file(out, overwrite, '.png')
  with np.errstate(over='ignore', invalid='ignore'):  # the checks report these
    name, recorded, chosen = _read_settings(settings, params)
    steps = step_hint or recorded
    if steps is None:
      raise ValueError('--step_hint is missing: the file does not state it.')
    plan = plans.RunPlan(steps, chosen)
    text = '\n'.join(preview.plan_lines(name, plan))
    if picture:
      preview.save_picture(picture, name, plan)
  print(text)


@command
@option('out', 'A new folder, or an empty one.', PATH, required=True)
@_settings
@option('name', "Of the submission's folder. Default: that of the settings.")
@option('authors', 'Goes to submission_info.yml.')
@option('affiliation', 'Goes to submission_info.yml.')
@option('tuning_ruleset', 'Its folder.', ['self', 'external'], default='self')
def export(
  out: pathlib.Path,
  settings: str | None,
  params: pathlib.Path | None,
  name: str | None,
  authors: str | None,
  affiliation: str | None,
  tuning_ruleset: str,
) -> None:
  """Writes the folder to hand in, <out>/self_tuning/<name>.

  What submission.py uses under the chosen settings, the search space,
  submission_info.yml and the licence, as the benchmark expects them.
  """
  folder = out.resolve()
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f'--out={out} is not empty. Nothing is replaced.')
  with errors.ended_by_signals():
    title, _, chosen = _read_settings(settings, params)
  name = title if name is None else name
  if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name):
    raise ValueError(
      f'--name={name} must be lower-case letters, digits and _, begin with a '
      'letter and be no Python keyword: it becomes part of module names.'
    )
  form = {'submission_folder': name, 'ruleset': f'{tuning_ruleset}-tuning'}
  further = {'authors': authors, 'affiliations': affiliation}
  form |= {key: value for key, value in further.items() if value}
  contents = handed_in(title, chosen, form)
  own = pathlib.Path(f'{tuning_ruleset}_tuning', name)
  with files.whole_folder(folder) as temporary:
    for file, text in contents.items():
      path = temporary / own / file
      path.parent.mkdir(parents=True, exist_ok=True)
      files.write_whole(path, text)
  code = [text for file, text in contents.items() if file.endswith('.py')]
  lines = sum(text.count('\n') for text in code)
  print(
    f'{folder / own}: {title}, {len(code)} modules with {lines:,} lines, and '
    f"{len(contents) - len(code)} other files. Copied to the benchmark's folder "
    f'submissions/, its runner takes:\n  --tuning_ruleset={tuning_ruleset} '
    f'--submission_path=submissions/{folder.name}/{own}/submission.py'
  )
  if not authors:
    print(f'Write the authors into {_FORM} before handing it in (--authors).')


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
  settings = (ROOT / _SETTINGS).read_text(encoding='utf-8')
  texts = closure({_SETTINGS: settings.replace(_IN_FORCE, _assignment(params))})
  for file in (_FORM, 'LICENSE'):
    texts[file] = (ROOT / file).read_text(encoding='utf-8')
  for key, value in form.items():
    line = f'{key}: {json.dumps(value, ensure_ascii=False)}'
    texts[_FORM] = line.join(re.split(rf'(?m)^{key}: .*$', texts[_FORM]))
  return {
    **texts,
    '__init__.py': _INIT,
    'tuning_search_space.json': search_space(params),
    'README.md': 'A self-tuning AlgoPerf submission in JAX: learning rate cycles '
    f'with soft resets; settings {title}, reset-cycles {__version__}.\n',
  }


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
  space = {}
  for name in vars(params.cycles[0].hparams):
    values = [getattr(cycle.hparams, name) for cycle in params.cycles]
    if name == 'learning_rate' or len(set(values)) == 1:
      space[name] = {'feasible_points': values[:1]}
  return json.dumps(space, indent=2) + '\n'

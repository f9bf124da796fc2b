"""`reset-cycles schedule` and `export`: settings shown, and handed in."""

from __future__ import annotations

import importlib
import keyword
import pathlib
import re
from typing import TYPE_CHECKING

import click

from ..console import errors, flags
from ..console.flags import PATH, command, option, overwrite, switch
from ..mini_algoperf import files
from ..views import paths
from . import handed_in
from .named_settings import read_settings, settings_option

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams


@command
@settings_option
@option(
  'step_hint',
  'Steps; needed, unless --settings is the file of a run.',
  flags.WholeNumber(1, 10**7),
)
@option('at', 'Also the phase and the rate of this step, from 1.', flags.COUNT)
@switch('bound', 'Also the convex bound of the plan, and of two others.')
@option(
  'out', 'PNG of the learning rate; with --bound, of the bound too.', PATH
)
@overwrite
def schedule(
  settings: str | None,
  step_hint: int | None,
  at: int | None,
  bound: bool,
  out: pathlib.Path | None,
  overwrite: bool,
) -> None:
  """Shows the learning rate that a chain of cycles plans.

  The cycles, their phases and checkpoints, what evaluations may change, and a
  picture.
  """
  if step_hint is None and settings is None:
    raise click.UsageError(
      '--step_hint is missing: only a file of a run states it.'
    )
  with errors.ended_by_signals():
    import numpy as np

    from ..engine.picture import drawn
    from ..views import plan_bound, planned_runs
  picture = out and paths.new_file(out, overwrite, '.png')
  with np.errstate(over='ignore', invalid='ignore'):  # the checks report these
    name, recorded, chosen = read_settings(settings)
    steps = step_hint or recorded
    if steps is None:
      raise ValueError(
        '--step_hint is missing: only a file of a run states it.'
      )
    plan = planned_runs.PlannedRun(steps, chosen)
    lines = [*planned_runs.planned_lines(name, plan)]
    if at is not None:
      lines.append(planned_runs.step_line(plan, at))
    rates = plan_bound.compared_rates(name, plan) if bound else {}
    if bound:
      lines += ['', *plan_bound.bound_lines(rates)]
    if picture:
      importlib.import_module('matplotlib')  # without it nothing is drawn
      draw = plan_bound.drawn_with_bound
      content = draw(rates) if bound else drawn(plan.chain)
      files.write_whole(picture, content)
  print('\n'.join(lines))


@command
@option('out', 'New, or empty.', flags.NEW_FOLDER, required=True)
@settings_option
@option('submission_path', 'A file of your own, made by make_submission.', PATH)
@option(
  'name',
  "Of the submission's folder. Default: that of the settings; own for a file.",
)
@option(
  'ruleset', 'For which it is handed in.', ['self', 'external'], default='self'
)
@option('tuning_search_space', "JSON. Default: this project's own.", PATH)
def export(
  out: pathlib.Path,
  settings: str | None,
  submission_path: pathlib.Path | None,
  name: str | None,
  ruleset: str,
  tuning_search_space: pathlib.Path | None,
) -> None:
  """Writes the folder to hand in, <out>/self_tuning/<name>.

  With --ruleset=external it is <out>/external_tuning/<name>, and has the search
  space, whose points and ends of ranges are tried on the settings first.

  The folder has the modules that submission.py imports, the chosen settings in
  one block, docs/algorithm.md as its README, submission_info.yml and the
  licence. At the end the command imports the folder where this project cannot
  be found.
  """
  folder = out.resolve()
  if folder == pathlib.Path.cwd():  # which is replaced: a shell would be lost
    raise ValueError(f'--out={out} is the current folder: give one in it.')
  if '.' in folder.name:
    raise ValueError(f'--out={out}: a dot would split the module names.')
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f'--out={out} is not empty. Nothing is replaced.')
  with errors.ended_by_signals():
    import jax
    import numpy as np

    title, user_file, chosen = _read_exported(settings, submission_path)
    model = jax.ShapeDtypeStruct((2, 2), np.float32)
    chosen.optimizer.roles({'w': model})  # or every run would refuse it
  if name is None:
    name = 'own' if title.endswith('.json') else title
  if not re.fullmatch('[a-z][a-z0-9_]*', name) or keyword.iskeyword(name):
    raise ValueError(
      f'--name={name} must be lower-case letters, digits and _, begin with a '
      'letter and be no Python keyword: it becomes part of module names.'
    )
  space = _read_space(ruleset, tuning_search_space, chosen)
  contents = handed_in.contents(title, chosen, name, user_file, space)
  place = pathlib.Path(f'{ruleset}_tuning', name)
  with files.whole_folder(folder) as temporary:
    for file, text in contents.items():
      path = temporary / place / file
      path.parent.mkdir(parents=True, exist_ok=True)
      files.write_whole(path, text)
    module = '.'.join((*place.parts, 'submission'))
    handed_in.check_imports(temporary, module, chosen)
  code = [text for file, text in contents.items() if file.endswith('.py')]
  lines = sum(text.count(b'\n') for text in code)
  ruleset_flags = f'--tuning_ruleset={ruleset}'
  whole = f'submissions/{folder.name}/{place}'
  if space:
    ruleset_flags += (
      f' --tuning_search_space={whole}/{handed_in.SEARCH_SPACE_FILE}'
    )
  print(
    f'{folder / place}: {title}, {len(code)} modules with {lines:,} lines, and '
    f'{len(contents) - len(code)} other files. Copied to the '
    f"benchmark's folder submissions/, its runner takes:\n  {ruleset_flags} "
    f'--submission_path={whole}/submission.py\n'
    f'Write the authors into {handed_in.FORM} before handing it in.'
  )


def _read_space(
  ruleset: str, path: pathlib.Path | None, settings: ScheduleParams
) -> bytes | None:
  """The file of a search space, whose values the settings take; None without.

  ValueError for a search space under the self-tuning ruleset, or for values
  that the settings do not take.
  """
  if ruleset == 'self':
    if path:
      raise ValueError(
        f'--tuning_search_space={path} has no effect under the self-tuning '
        'ruleset: leave it out, or give --ruleset=external.'
      )
    return None
  from ..engine.tuned import tuned
  from ..mini_algoperf import tuning

  file = path or handed_in.ROOT / handed_in.SEARCH_SPACE_FILE
  try:
    for point in tuning.outermost_points(tuning.read_space(str(file))):
      tuned(settings, point)
  except ValueError as e:
    has_name = str(e).startswith('--')
    raise ValueError(
      str(e) if has_name else f'--tuning_search_space={file}: {e}'
    ) from e
  return file.read_bytes()


def _read_exported(
  settings: str | None, path: pathlib.Path | None
) -> tuple[str, pathlib.Path | None, ScheduleParams]:
  """A name, the submission's file if it is to go along, and the settings."""
  if path is None:
    title, _, chosen = read_settings(settings)
    return title, None, chosen
  if settings is not None:
    raise ValueError('--submission_path has settings: give no --settings.')
  from ..mini_algoperf.submission_loader import load_submission
  from . import own_parts

  with errors.setup_phase(str(path), ''):
    settings_of_file = own_parts.settings_of(load_submission(str(path)))
    own_parts.rehearse(settings_of_file)
  if settings_of_file is None:
    raise ValueError(
      f'--submission_path={path}: init_optimizer_state must be that of '
      'make_submission.'
    )
  path = path.resolve()
  return (
    'own',
    None if path.parent == handed_in.ROOT else path,
    settings_of_file,
  )

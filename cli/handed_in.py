"""What is submitted to the benchmark: the one list of its files."""

from __future__ import annotations

import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Single modules, and folders of which every module is included: a part that was
# added as a file is submitted, too.
MODULES = (
  'early_switching.py',
  'schedule_params.py',
  'soft_reset.py',
  'submission.py',
)
FOLDERS = (
  'settings',
  'schedules',
  'optimizers',
  'averaging',
  'cycles',
  'control',
  'training',
)
# The package's own exports names for users' loops, which are not submitted.
INIT = (
  '"""A self-tuning submission: learning rate cycles with soft resets."""\n'
)
LICENSE = 'LICENSE'
FORM = 'submission_info.yml'
# The thesis' runs as submissions; the registry of its figures knows workloads.
EXPERIMENTS = 'experiments'
NOT_WITH_THEM = 'experiments/thesis.py'
SEARCH_SPACE = 'tuning_search_space.json'
# Ruleset -> the folder that the benchmark's checker expects, the form's word.
RULESETS = {
  'self': ('self_tuning', 'self-tuning'),
  'external': ('external_tuning', 'external-tuning'),
}


def files(experiments: bool = False) -> list[str]:
  """Modules that the benchmark imports, relative to the package's folder.

  An `__init__.py` with the text INIT is added to them.

  Args:
    experiments: whether to include the thesis' experiments.
  """
  found = {
    path.relative_to(ROOT).as_posix()
    for folder in (*FOLDERS, *([EXPERIMENTS] if experiments else []))
    for path in (ROOT / folder).rglob('*.py')
  }
  return [*MODULES, *sorted(found - {NOT_WITH_THEM})]


def name_in_form() -> str:
  """The name of the submission's folder in the form."""
  return re.search(r'(?m)^submission_folder: "(\w+)"$', _form())[1]


def copy(
  folder: pathlib.Path, ruleset: str, name: str, experiments: bool = False
) -> pathlib.Path:
  """Writes a submission as the benchmark's checker expects it.

  There is no `__init__.py` above the submission's own: the benchmark imports it
  by its path and needs none, and the `__pycache__` next to one would be taken
  for a submission without `submission.py`.

  Args:
    folder: an existing folder; gets `self_tuning/<name>` or
      `external_tuning/<name>`.
    ruleset: 'self', or 'external', which adds the search space.
    name: name of the submission's folder.
    experiments: see `files`.

  Returns:
    The submission's folder.

  Raises:
    OSError: if a file cannot be read or written.
  """
  place, word = RULESETS[ruleset]
  own = folder / place / name
  extra = [SEARCH_SPACE] if ruleset == 'external' else []
  for file in (*files(experiments), LICENSE, *extra):
    target = own / file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, target)
  (own / '__init__.py').write_text(INIT, encoding='utf-8')
  text = _with_line(_form(), 'submission_folder', name)
  (own / FORM).write_text(_with_line(text, 'ruleset', word), encoding='utf-8')
  return own


def _form() -> str:
  return (ROOT / FORM).read_text(encoding='utf-8')


def _with_line(text: str, key: str, value: str) -> str:
  """The form with a key's value replaced."""
  return re.sub(rf'(?m)^{key}: .*$', f'{key}: "{value}"', text)

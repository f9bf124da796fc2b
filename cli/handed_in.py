"""What is handed in to the benchmark: the one list of its files."""

from __future__ import annotations

import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Modules beside one another, and folders with all modules in them: a part that
# was added as a file is handed in, too.
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
# The package's own has names for loops of one's own, which stay behind.
INIT = (
  '"""A self-tuning submission: learning rate cycles with soft resets."""\n'
)
LICENSE = 'LICENSE'
FORM = 'submission_info.yml'
# The thesis' runs as submissions; the registry of its figures knows workloads.
EXPERIMENTS = 'experiments'
NOT_WITH_THEM = 'experiments/thesis.py'
SEARCH_SPACE = 'tuning_search_space.json'
# The benchmark's ruleset -> the folder that its checker wants, the form's word.
RULESETS = {
  'self': ('self_tuning', 'self-tuning'),
  'external': ('external_tuning', 'external-tuning'),
}


def files(experiments: bool = False) -> list[str]:
  """Modules that the benchmark imports, relative to the package's folder.

  Beside them there is an `__init__.py`, INIT.

  Args:
    experiments: whether the thesis' experiments are among them.
  """
  found = {
    path.relative_to(ROOT).as_posix()
    for folder in (*FOLDERS, *([EXPERIMENTS] if experiments else []))
    for path in (ROOT / folder).rglob('*.py')
  }
  return [*MODULES, *sorted(found - {NOT_WITH_THEM})]


def name_in_form() -> str:
  """The submission's folder, as the form has it."""
  return re.search(r'(?m)^submission_folder: "(\w+)"$', _form())[1]


def copy(
  folder: pathlib.Path, ruleset: str, name: str, experiments: bool = False
) -> pathlib.Path:
  """Writes a submission as the benchmark's checker wants to find it.

  No `__init__.py` lies above the submission's own: the benchmark imports it by
  its path and needs none, and the `__pycache__` beside one would be taken for a
  submission without `submission.py`.

  Args:
    folder: that exists; gets `self_tuning/<name>` or `external_tuning/<name>`.
    ruleset: 'self' or 'external', which adds the search space.
    name: of the submission.
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
  """The form with another value on a key's line."""
  return re.sub(rf'(?m)^{key}: .*$', f'{key}: "{value}"', text)

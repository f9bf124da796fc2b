"""The table of docs/settings.md: every setting, as the dataclasses say it.

python docs/settings_table.py prints it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from reset_cycles.core import evaluation, optimizers, range_test, schedules
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.soft_reset import SoftReset

CLASSES = (
  ScheduleParams,
  schedules.Cycle,
  schedules.LinearWarmup,
  schedules.Cosine,
  schedules.Cooldown,
  optimizers.AdamW,
  optimizers.ScheduleFreeAdamW,
  SoftReset,
  SmoothedLossRule,
  Progress,
  range_test.RangeTest,
  evaluation.TimeHorizon,
)


def meanings(kind: type) -> dict[str, str]:
  """What is said of each field: in its line, or under `Attributes`."""
  lines = re.findall(
    r'^  (\w+): .*?  # (.*)$', inspect.getsource(kind), re.MULTILINE
  )
  doc = inspect.getdoc(kind) or ''
  section = re.search(r'^Attributes:\n((?:  .*\n?|\n)*)', doc, re.MULTILINE)
  items = re.findall(
    r'^  (\w+): (.*(?:\n    .*)*)', section[1] if section else '', re.MULTILINE
  )
  return {name: ' '.join(text.split()) for name, text in [*lines, *items]}


def default(field: dataclasses.Field[Any]) -> str:
  """'=' and a field's default, as in Python; '' for one without."""
  value = field.default
  if value is dataclasses.MISSING:
    return ''
  return f'={value!r}'


def table() -> str:
  """The table, one row per setting."""
  rows = ['| setting and default | meaning |', '|---|---|']
  for kind in CLASSES:
    said = meanings(kind)
    # Schedule-Free has AdamW's as well.
    for field in dataclasses.fields(kind):
      if field.name not in said:
        continue
      name = f'`{kind.__name__}.{field.name}{default(field)}`'
      rows.append(f'| {name} | {said[field.name]} |')
  return '\n'.join(rows) + '\n'


if __name__ == '__main__':
  print(table(), end='')

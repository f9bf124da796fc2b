"""Runs as they are planned: the chain of cycles in words, and the settings."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core.chain import Chain, jax_lr_schedule
from ..core.checks import check_count
from ..core.schedules import PlannedCycle
from ..engine.records import SETTINGS
from ..schedule_params import ScheduleParams
from ..shapes.phases import period_at, periods
from . import settings_json
from .paths import check_file, read_object
from .text_table import table_lines

# The most steps of a plan or a log: more would need gigabytes. No run of the
# benchmark has a hundredth of them.
MOST_HELD_STEPS = 20_000_000
_WIDTH = 80  # of a terminal


class PlannedRun(NamedTuple):
  """A chain of cycles, and the steps that it is laid over."""

  step_hint: int
  settings: ScheduleParams

  @property
  def chain(self) -> Chain:
    """The chain over its steps."""
    settings = self.settings
    return jax_lr_schedule(
      self.step_hint,
      settings.cycles,
      settings.budget_factor,
      peak_factor=settings.peak_factor,
    )


def read_settings(log_dir: pathlib.Path) -> dict[str, Any] | None:
  """A run's step_hint and settings; None without any, ValueError if damaged."""
  path = check_file(log_dir / SETTINGS)
  if not path.exists():
    return None
  values = dict(read_object(path))
  if missing := [
    n for n in ('step_hint', 'schedule_params') if n not in values
  ]:
    raise ValueError(f'{path}: {missing[0]} is missing.')
  return values


def read_planned_run(log_dir: pathlib.Path) -> PlannedRun | None:
  """The plan of a run; None if its folder has none.

  ValueError names a damaged file, or a class that is not this package's.
  """
  if read_settings(log_dir) is None:
    return None
  step_hint, settings = settings_json.read_file(log_dir / SETTINGS)
  assert step_hint is not None  # it is there
  return PlannedRun(step_hint, settings)


def _check_length(plan: PlannedRun) -> None:
  """Raises a ValueError if a plan has more steps than can be held."""
  factor, step_hint = plan.settings.budget_factor, plan.step_hint
  if factor * step_hint > MOST_HELD_STEPS:
    raise ValueError(
      f'budget_factor={factor:g} and step_hint={step_hint:,} make '
      f'{factor * step_hint:g} steps: give a plan of at most '
      f'{MOST_HELD_STEPS:,}.'
    )


def setting_text(setting: Any) -> str:
  """A setting in few words: its class, and the fields that are not defaults."""
  if isinstance(setting, tuple):
    return f'({", ".join(map(setting_text, setting))})'
  if not dataclasses.is_dataclass(setting):
    return str(setting)
  changed = [
    f'{field.name}={setting_text(getattr(setting, field.name))}'
    for field in dataclasses.fields(setting)
    if getattr(setting, field.name) != field.default
  ]
  name = type(setting).__name__
  return f'{name}({", ".join(changed)})' if changed else name


def planned_rates(plan: PlannedRun) -> np.ndarray:
  """The rates at which the steps are taken when no cycle is abandoned.

  Returns:
    shape=(steps,), float32. The rate after the last step is not among them.
  """
  chain = plan.chain
  return np.asarray(jax.jit(chain)(np.arange(chain.steps)))


def what_evaluations_decide(settings: ScheduleParams) -> Sequence[str]:
  """Where a run may differ from its plan, a sentence for each reason."""
  sentences = []
  if settings.relative_peak:
    sentences.append(
      f'{setting_text(settings.relative_peak)} sets all peaks as the run '
      "begins, from a fresh model's weights. The rates shown are as written; a "
      'SpectralPeak has lowered them by the steps until each cycle ends.'
    )
  if settings.early_switching:
    follows = 'the next one then starts at once'
    if settings.horizon:
      follows = 'the chain then begins anew, at half of the rate'
    sentences.append(
      f'{setting_text(settings.switching)} may end a cycle early; {follows}.'
    )
  if settings.horizon:
    sentences.append(
      f'{setting_text(settings.horizon)} lays the cycles over the time '
      'budget, anew at every evaluation, with the same ratios. A cycle may be '
      'a few steps longer: a reset waits for its evaluation.'
    )
  if len(settings.cycles) > 1 or sentences:
    sentences.append(
      f'What a further cycle starts from: {setting_text(settings.reset)}, '
      'with tau from the last evaluation where the reset is soft.'
    )
  return sentences


def planned_lines(name: str, plan: PlannedRun) -> Iterator[str]:
  """The lines that a terminal shows of a plan; ValueError for a wrong plan."""
  _check_length(plan)
  rates = planned_rates(plan)
  yield (
    f'{name}: {rates.size:,} steps, {plan.settings.budget_factor:g} times a '
    f'step_hint of {plan.step_hint:,}.'
  )
  yield from table_lines(cycle_rows(plan.chain.cycles))
  yield from table_lines(period_rows(plan.chain))
  if plan.chain.has_multiple:
    steps = ', '.join(f'{step:,}' for step in plan.chain.reinit_steps)
    yield f'Steps after which a further cycle starts (reinit_steps): {steps}.'
  else:
    yield 'No further cycle is planned (has_multiple is False).'
  decided = what_evaluations_decide(plan.settings)
  yield 'First and last step are counted from 1. ' + (
    'In a run, evaluations decide:' if decided else 'This is what will happen.'
  )
  for sentence in decided:
    yield from textwrap.wrap(
      sentence, _WIDTH, initial_indent='- ', subsequent_indent='  '
    )


def cycle_rows(cycles: Sequence[PlannedCycle]) -> list[tuple[str, ...]]:
  """A header and a row for each cycle when none is abandoned.

  Its first and last step are counted from 1, as evaluations count them.
  """
  ends = list(itertools.accumulate(cycle.steps for cycle in cycles))
  written = [planned.cycle for planned in cycles]
  columns = {
    'cycle': [f'{i + 1}' for i in range(len(cycles))],
    'first': [f'{e - c.steps + 1:,}' for e, c in zip(ends, cycles)],
    'last': [f'{end:,}' for end in ends],
    'warm-up': [setting_text(cycle.warmup) for cycle in written],
    'steps': [f'{cycle.warmup_steps:,}' for cycle in cycles],
    'peak': [f'{cycle.peak:.4g}' for cycle in written],
    'decay': [setting_text(cycle.decay) for cycle in written],
    'share': [f'{cycle.steps / ends[-1]:.1%}' for cycle in cycles],
  }
  decays = [setting_text(cycle.weight_decay) for cycle in written]
  if {*decays} != {'Constant'}:
    columns['weight decay'] = decays
  return [tuple(columns), *zip(*columns.values())]


def period_rows(chain: Chain) -> list[tuple[str, ...]]:
  """A header and a row for each period, which leads up to a checkpoint.

  The first steps of the phases are counted from 1. 'decay' is the number of
  steps of the decay, 'checkpoint' the number of steps taken at the period's
  end.
  """
  rows: list[tuple[str, ...]]
  rows = [('cycle', 'from', 'stable from', 'decay from', 'decay', 'checkpoint')]
  for period in periods(chain):
    is_stable = period.warmup_end < period.pre_decay_step
    stable = f'{period.warmup_end + 1:,}' if is_stable else '–'
    decay, checkpoint = f'{period.pre_decay_step + 1:,}', f'{period.end:,}'
    if not period.decay_steps:
      decay = checkpoint = '–'
    first, length = f'{period.start + 1:,}', f'{period.decay_steps:,}'
    rows.append((f'{period.cycle}', first, stable, decay, length, checkpoint))
  return rows


def step_line(plan: PlannedRun, step: int) -> str:
  """The phase and the rate of a step, counted from 1.

  Raises:
    ValueError: if the plan does not have the step.
  """
  chain = plan.chain
  check_count('--at', step, most=chain.steps)
  period, rate = period_at(chain, step - 1), float(chain(step - 1))
  line = f'Step {step:,}: cycle {period.cycle}, {period.phase(step - 1)}, rate '
  line += f'{rate:.4g}; steps {period.start + 1:,} to {period.end:,}'
  if period.decay_steps:
    line += f', decay from {period.pre_decay_step + 1:,}'
  return f'{line}.'


def run_settings(log_dir: pathlib.Path) -> dict[str, str]:
  """A run's settings, a text per field; empty if its folder has no settings.

  The settings' classes need not exist any more. A field of several cycles, such
  as 'cycles.length', is there once: with one value or, where the cycles differ,
  with a value for each cycle.
  """
  values = read_settings(log_dir)
  if values is None:
    return {}
  return {
    'step_hint': str(values['step_hint']),
    **_flat(values['schedule_params'], ''),
  }


def _flat(value: Any, name: str) -> dict[str, str]:
  if isinstance(value, Mapping):
    fields = {name: str(value['class'])} if name and 'class' in value else {}
    for field, inner in value.items():
      if field != 'class':
        fields |= _flat(inner, f'{name}.{field}' if name else field)
    return fields
  if not isinstance(value, list):
    return {name: str(value)}
  parts = [_flat(item, name) for item in value]
  texts = {
    n: [part.get(n, '–') for part in parts] for part in parts for n in part
  }
  are_objects = any(isinstance(item, Mapping) for item in value)
  return {
    n: items[0] if are_objects and len(set(items)) == 1 else ', '.join(items)
    for n, items in texts.items()
  }

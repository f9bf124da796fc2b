"""Chains of cycles, as studies see them: planned, and as a run has gone.

This is the only module of the studies that knows how settings are written and
what a schedule computes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..core import schedules
from ..core.cycle import Schedule
from ..core.race import Finish, Race
from ..core.records import CYCLES, as_plain
from ..core.records import SETTINGS as CONFIGURATION
from ..core.schedules import Chain, CycleClock
from ..parts import settings_json
from ..schedule_params import SCHEDULE_PARAMS, ScheduleParams
from .paths import check_file, read_object

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

__all__ = ['CONFIGURATION', 'CYCLES', 'ScheduleParams']
# Peaks with a larger ratio need a logarithmic axis.
_FAR_APART = 30.0
_POINTS = 2000  # about three per pixel of a picture's width
_MOST_STEPS = 20_000_000  # more would need gigabytes


class RunPlan(NamedTuple):
  """A chain of cycles, and the steps that it is laid over."""

  step_hint: int
  params: ScheduleParams

  @property
  def num_cycles(self) -> int:
    """Cycles of the chain."""
    return len(self.params.cycles)

  @property
  def chain(self) -> Chain:
    """The chain over its steps."""
    return self.params.chain(self.step_hint)


class PlannedCycle(NamedTuple):
  """A cycle of a plan; shapes are written as `shown` does."""

  steps: int
  warmup_steps: int
  peak: float
  warmup: str
  decay: str
  weight_decay: float
  weight_decay_shape: str  # empty if it is constant


class Anchor(NamedTuple):
  """The clock as an event of a run has set it."""

  step: int  # the step about to be taken
  starts: bool  # whether a cycle starts here
  setting: int  # index of the planned cycle, from 0
  local: float  # anchor_local, nominal steps
  pace: float  # nominal steps per step
  scale: float  # factor of the rate


def read_plan(log_dir: pathlib.Path) -> RunPlan | None:
  """The plan of a run; None if its folder has none.

  Raises:
    ValueError: if the file is damaged; names it.
  """
  path = check_file(log_dir / CONFIGURATION)
  if not path.exists():
    return None
  step_hint, params = settings_json.read_file(path)
  if step_hint is None:
    raise ValueError(f'{path}: the field step_hint is missing.')
  return RunPlan(step_hint, params)


def check(plan: RunPlan) -> None:
  """Raises a ValueError if nothing can be trained by a plan.

  The cycles don't fit into the steps, a rate is impossible, or there are more
  steps than can be held.
  """
  factor, step_hint = plan.params.budget_factor, plan.step_hint
  if factor * step_hint > _MOST_STEPS:
    raise ValueError(
      f'budget_factor={factor:g} and step_hint={step_hint:,} make '
      f'{factor * step_hint:g} steps: give a plan of at most {_MOST_STEPS:,}.'
    )
  schedules.check_rates(plan.chain.cycles)


def planned_cycles(plan: RunPlan) -> list[PlannedCycle]:
  """The cycles of a plan, in order."""
  return [
    PlannedCycle(
      cycle.steps,
      cycle.warmup_steps,
      cycle.setting.hparams.learning_rate,
      shown(cycle.setting.warmup),
      shown(cycle.setting.decay),
      cycle.setting.hparams.weight_decay,
      shown(cycle.setting.weight_decay_shape or ''),
    )
    for cycle in plan.chain.cycles
  ]


def shown(setting: Any) -> str:
  """A setting in few words: its class, and the fields that are not defaults."""
  if not dataclasses.is_dataclass(setting):
    return str(setting)
  changed = [
    f'{field.name}={shown(getattr(setting, field.name))}'
    for field in dataclasses.fields(setting)
    if getattr(setting, field.name) != field.default
  ]
  name = type(setting).__name__
  return f'{name}({", ".join(changed)})' if changed else name


def planned_rates(plan: RunPlan) -> np.ndarray:
  """The rates at which the steps are taken when no cycle is left early.

  Args:
    plan: the chain.

  Returns:
    shape=(steps,), float32. The rate after the last step is not among them.
  """
  return _at_all_steps(plan.chain.schedule, plan)


def planned_weight_decays(plan: RunPlan) -> np.ndarray | None:
  """The weight decays of the same steps; None if they are constant."""
  cycles = plan.chain.cycles
  if all(cycle.weight_decay is None for cycle in cycles):
    return None
  counts = [np.arange(cycle.steps, dtype=np.int32) for cycle in cycles]
  parts = [
    np.full(steps.size, cycle.setting.hparams.weight_decay)
    if cycle.weight_decay is None
    else jax.vmap(cycle.weight_decay)(steps)
    for cycle, steps in zip(cycles, counts)
  ]
  return np.concatenate(parts).astype(np.float32)


def _at_all_steps(schedule: Schedule, plan: RunPlan) -> np.ndarray:
  length = sum(cycle.steps for cycle in plan.chain.cycles)
  steps = np.arange(length, dtype=np.int32)
  return np.asarray(jax.vmap(schedule)(steps), np.float32)


def ends_with_chain(params: ScheduleParams) -> bool:
  """Whether a run ends when its chain has run out."""
  return type(params.policy) is Finish


def what_evaluations_decide(params: ScheduleParams) -> list[str]:
  """What of a plan a run may do otherwise, a sentence each.

  Returns:
    Nothing only if all that happens is in the plan.
  """
  said = []
  if isinstance(params.policy, Race):
    peaks = ', '.join(f'{factor:g}' for factor in params.policy.peaks)
    said.append(
      f'The rates are multiplied by {peaks}, in this order, until the model '
      'learns: its first evaluation in the cycle says so. Each change is a full '
      'reset, and the chain begins anew.'
    )
  if params.early_switching:
    said.append(
      f'{shown(params.switching)} may end a cycle early; the next one then '
      'starts at once.'
    )
  if params.horizon.is_hard_limit:
    said.append(
      f'{shown(params.horizon)} lays the cycles over the time budget, anew at '
      'every evaluation, with the same ratios.'
    )
  if params.wait:
    said.append(
      'A cycle may be a few steps longer: a reset waits for its evaluation.'
    )
  if len(params.cycles) > 1 or said:
    said.append(
      f'What a further cycle starts from: {shown(params.reset)}, with tau from '
      'the last evaluation where the reset is soft.'
    )
  return said


def draw(figure: Figure, plan: RunPlan, title: str) -> None:
  """Draws the planned rate and, below it, a scheduled weight decay.

  Where a race tries factors on the peaks, each has a curve.

  Args:
    figure: without axes.
    plan: the chain.
    title: of the picture.
  """
  rates, decays = planned_rates(plan), planned_weight_decays(plan)
  starts = plan.chain.reinit_steps
  panels = 1 if decays is None else 2
  figure.set_size_inches(7, 3 * panels)
  axes = figure.subplots(panels, sharex=True, squeeze=False)[:, 0]
  axes[0].set_title(title, loc='left', fontsize='medium')
  policy = plan.params.policy
  factors = policy.peaks if isinstance(policy, Race) else (1.0,)
  for i, factor in enumerate(factors):
    color = 'tab:blue' if i == 0 else f'{0.3 + 0.2 * i:.1f}'
    label = f'x {factor:g}' if len(factors) > 1 else ''
    _plot(axes[0], factor * rates, starts, 'learning rate', color, label)
  if len(factors) > 1:
    axes[0].set_yscale('log')
    peak = float(min(factors) * rates.max())
    axes[0].set_ylim(bottom=peak / _FAR_APART)
    axes[0].legend(fontsize='small', title='tried in a race')
  if decays is not None:
    _plot(axes[1], decays, starts, 'weight decay', 'tab:orange')
  axes[-1].set_xlabel('global step')


def _plot(
  axes: Axes,
  values: np.ndarray,
  starts: Sequence[int],
  name: str,
  color: str,
  label: str = '',
) -> None:
  points = np.linspace(0, values.size - 1, _POINTS).astype(np.int64)
  steps = np.unique(np.append(points, starts).astype(np.int64))
  axes.plot(steps, values[steps], color=color, label=label)
  for start in starts:
    axes.axvline(start, color='0.5', linestyle='--', linewidth=1)
  axes.set_xlim(0, values.size)
  axes.set_ylabel(name)
  scale_rates(axes, steps, values[steps], starts)


def scale_rates(
  axes: Axes, steps: np.ndarray, values: np.ndarray, starts: Sequence[int]
) -> None:
  """Makes the y axis logarithmic if cycles' highest values are far apart.

  Args:
    axes: matplotlib axes in which the values are drawn.
    steps: shape=(n,), rising.
    values: shape=(n,), at these steps; none below 0.
    starts: first step of each cycle but the first.
  """
  parts = np.split(values, np.searchsorted(steps, starts))
  highest = [float(part.max()) for part in parts if part.size]
  if highest and max(highest) > _FAR_APART * min(highest) > 0:
    axes.set_yscale('log')
    axes.set_ylim(bottom=min(highest) / _FAR_APART)
  else:
    axes.set_ylim(bottom=0)


def run_settings(log_dir: pathlib.Path) -> dict[str, str]:
  """A run's settings, by field, as JSON; none if its folder has none."""
  plan = read_plan(log_dir)
  if plan is None:
    return {}
  settings = {'step_hint': str(plan.step_hint), **_flat(plan.params)}
  others = read_object(log_dir / CONFIGURATION).get('not_in_force')
  return {
    **settings,
    **({'not_in_force': json.dumps(others)} if others else {}),
  }


def default_settings() -> dict[str, str]:
  """The settings that are handed in, likewise."""
  return _flat(SCHEDULE_PARAMS)


def _flat(params: ScheduleParams) -> dict[str, str]:
  values = as_plain(params)
  del values['class']
  cycles = values.pop('cycles')
  own = {f'cycles[{i}]': cycle for i, cycle in enumerate(cycles)}
  return {
    name: json.dumps(value) for name, value in (*own.items(), *values.items())
  }


# Most seeds of a run have the same clock.
@functools.lru_cache(maxsize=64)
def rates_of_run(
  plan: RunPlan, anchors: tuple[Anchor, ...], last_step: int
) -> tuple[np.ndarray, np.ndarray]:
  """The steps of a run and the rate with which each of them was taken.

  Until the next anchor the clock runs on by itself:

    local step = anchor_local + (step - anchor_step) * pace
    rate = scale * schedule(min(local step, length))

  All are computed at once, which rounds some of them differently from the
  compiled step (by up to 5e-6 of a small rate).

  Args:
    plan: the chain.
    anchors: at least one.
    last_step: steps that the run has taken.

  Returns:
    Steps and rates, shape=(n,), float32.
  """
  cycles = plan.chain.cycles
  steps = np.arange(anchors[0].step, max(last_step, anchors[0].step))
  # For each step the last anchor before it.
  begin = [anchor.step for anchor in anchors]
  at = np.searchsorted(begin, steps, side='right') - 1

  def values(name: str, dtype: type) -> np.ndarray:
    return np.array([getattr(a, name) for a in anchors], dtype)[at]

  clocks = CycleClock(
    count=steps.astype(np.int32),
    cycle=values('setting', np.int32),
    anchor_step=values('step', np.int32),
    anchor_local=values('local', np.float32),
    pace=values('pace', np.float32),
    scale=values('scale', np.float32),
  )
  read = functools.partial(schedules.learning_rate, cycles=cycles)
  return steps, np.asarray(jax.vmap(read)(clocks))


def warmups_of_run(
  plan: RunPlan, anchors: Sequence[Anchor]
) -> list[tuple[float, float]]:
  """First step and end of each cycle's warm-up.

  It ends at anchor_step + (W - anchor_local) / pace, W nominal steps, of the
  first anchor for which this comes before the next one.

  Args:
    plan: the chain.
    anchors: of the run.
  """
  lengths = [cycle.warmup_steps for cycle in planned_cycles(plan)]
  firsts = [i for i, anchor in enumerate(anchors) if anchor.starts]
  found = []
  for first, after in zip(firsts, [*firsts[1:], len(anchors)]):
    own = anchors[first:after]
    start = end = float(own[0].step)
    for anchor, following in itertools.zip_longest(own, own[1:]):
      length = lengths[anchor.setting]
      end = anchor.step + (length - anchor.local) / anchor.pace
      if following is None or end <= following.step:
        break
    found.append((start, max(start, end)))
  return found


def check_anchors(
  path: pathlib.Path, anchors: Sequence[Anchor], num_cycles: int
) -> None:
  """Raises a ValueError if the anchors in a file cannot be a run's."""
  rows: Mapping[str, tuple[Sequence[bool], str]] = {
    'setting': (
      [0 <= a.setting < num_cycles for a in anchors],
      f'from 1 to {num_cycles}, the cycles of the plan',
    ),
    'anchor_local': ([np.isfinite(a.local) for a in anchors], 'finite'),
    'pace': ([0 < a.pace < np.inf for a in anchors], 'positive and finite'),
    'scale': ([np.isfinite(a.scale) for a in anchors], 'finite'),
  }
  for name, (right, what) in rows.items():
    if not all(right):
      wrong = anchors[right.index(False)]
      raise ValueError(
        f'{path}: {name} must be {what}, and is not at step {wrong.step}.'
      )

"""The cycles of a plan as a table for the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...schedule_params import ScheduleParams
from ...schedules.cycle import Cycle
from ...schedules.lr_schedule import lay_out
from ...schedules.plan import CyclePlan
from ...settings.named import name_of

# Half a unit of a number's fourth digit is at least this fraction of it. The
# rates are float32, and one that is the peak but for that prints as the peak.
_UNSEEN = 5e-5


def cycle_rows(
  step_hint: int, params: ScheduleParams, rates: np.ndarray | None = None
) -> list[tuple[str, ...]]:
  """A header and a row for each cycle when none is left early.

  Args:
    step_hint: the workload's, steps.
    params: the chain.
    rates: shape=(steps,); what the chain plans, or None for a chain whose
      cycles are known to reach their peaks.

  Returns:
    Number of the cycle; its first and last step, counted from 1 as evaluations
    count them; shape and steps of the warm-up; peak, and the highest of the
    rates if that is another in any cycle; decay; shape and peak of the weight
    decay if it is scheduled; share of all steps.
  """
  cycles, plans = lay_out(step_hint, params), params.plans
  lengths = [cycle.steps for cycle in cycles]
  ends = list(itertools.accumulate(lengths))
  columns = {
    'cycle': [f'{i + 1}' for i in range(params.num_cycles)],
    'first': [f'{end - length + 1:,}' for end, length in zip(ends, lengths)],
    'last': [f'{end:,}' for end in ends],
    'warm-up': [str(plan.warmup) for plan in plans],
    'steps': [f'{cycle.warmup_steps:,}' for cycle in cycles],
    'peak': [f'{cycle.peak:.4g}' for cycle in cycles],
    **_highest_column(ends, cycles, rates),
    'decay': [str(plan.decay) for plan in plans],
    **_weight_decay_column(plans),
    'share': [f'{length / ends[-1]:.1%}' for length in lengths],
  }
  return [tuple(columns), *zip(*columns.values())]


def _highest_column(
  ends: Sequence[int], cycles: Sequence[Cycle], rates: np.ndarray | None
) -> dict[str, list[str]]:
  """Only where a shape ends up above its peak, or never gets there."""
  if rates is None:
    return {}
  highest = [values.max() for values in np.split(rates, ends[:-1])]
  peaks = [cycle.peak for cycle in cycles]
  if np.allclose(highest, peaks, rtol=_UNSEEN, atol=0.0):
    return {}
  return {'highest': [f'{rate:.4g}' for rate in highest]}


def _weight_decay_column(
  plans: Sequence[CyclePlan],
) -> dict[str, list[str]]:
  """Only where it is scheduled, or cycles differ in it."""
  shapes = [plan.weight_decay_shape for plan in plans]
  values = [plan.weight_decay for plan in plans]
  if set(shapes) == {None} and len(set(values)) == 1:
    return {}
  return {
    'weight decay': [
      f'{shape} {value:.4g}' if shape else f'{value:.4g}'
      for shape, value in zip(shapes, values)
    ]
  }


def setting_rows(params: ScheduleParams) -> list[tuple[str, ...]]:
  """A header and a row for each cycle: what its numbers don't say.

  Args:
    params: the chain.

  Returns:
    Number of the cycle, its setting's name, optimizer, averaging and what it
    starts from, each where it is not as in the thesis throughout; nothing if
    all are.
  """
  plans = params.plans
  columns = {
    'setting': list(map(name_of, params.cycles)),
    'optimizer': [str(plan.optimizer) for plan in plans],
    'averaging': [str(plan.averaging) for plan in plans],
    'starts from': [plan.start_from for plan in plans],
  }
  usual = ({'own'}, set(), {'adamw'}, {'none'}, {''})
  told = {name: v for name, v in columns.items() if set(v) not in usual}
  if not told:
    return []
  numbers = [f'{i + 1}' for i in range(len(plans))]
  return [('cycle', *told), *zip(numbers, *told.values())]

"""The cycles of a plan as a table for the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...schedule_params import ScheduleParams
from ...schedules import lr_schedule
from ...schedules.warmups import warmup_steps

# Half a unit of a number's fourth digit is at least this fraction of it. The
# rates are float32, and one that is the peak but for that prints as the peak.
_UNSEEN = 5e-5


def warmup_lengths(step_hint: int, params: ScheduleParams) -> tuple[int, ...]:
  """Steps of each cycle's warm-up; the warm-up 'none' has none."""
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  factor = params.hparams.warmup_factor
  return tuple(
    warmup_steps(warmup, length, factor, added)
    for length, warmup, added in zip(
      lengths, params.warmups, params.alter_warmup
    )
  )


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
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  ends = list(itertools.accumulate(lengths))
  columns = {
    'cycle': [f'{i + 1}' for i in range(params.num_cycles)],
    'first': [f'{end - length + 1:,}' for end, length in zip(ends, lengths)],
    'last': [f'{end:,}' for end in ends],
    'warm-up': map(str, params.warmups),
    'steps': [f'{steps:,}' for steps in warmup_lengths(step_hint, params)],
    'peak': [f'{peak:.4g}' for peak in _peaks(params)],
    **_highest_column(ends, params, rates),
    'decay': map(str, params.decays),
    **_weight_decay_column(params),
    'share': [f'{length / ends[-1]:.1%}' for length in lengths],
  }
  return [tuple(columns), *zip(*columns.values())]


def _peaks(params: ScheduleParams) -> list[float]:
  return [params.hparams.learning_rate + added for added in params.alter_lr]


def _highest_column(
  ends: Sequence[int], params: ScheduleParams, rates: np.ndarray | None
) -> dict[str, list[str]]:
  """Only where a shape ends up above its peak, or never gets there."""
  if rates is None:
    return {}
  highest = [cycle.max() for cycle in np.split(rates, ends[:-1])]
  if np.allclose(highest, _peaks(params), rtol=_UNSEEN, atol=0.0):
    return {}
  return {'highest': [f'{rate:.4g}' for rate in highest]}


def _weight_decay_column(params: ScheduleParams) -> dict[str, list[str]]:
  if not (params.weight_decays or params.alter_weight_decay):
    return {}
  n, base = params.num_cycles, params.hparams.weight_decay
  shapes = params.weight_decays or ('constant',) * n
  added = params.alter_weight_decay or (0.0,) * n
  return {
    'weight decay': [f'{s} {base + more:.4g}' for s, more in zip(shapes, added)]
  }

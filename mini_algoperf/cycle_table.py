"""The cycles of a plan as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .. import lr_schedule, lr_shapes
from ..schedule_params import ScheduleParams


def warmup_lengths(step_hint: int, params: ScheduleParams) -> tuple[int, ...]:
  """Steps of each cycle's warm-up; the warm-up 'none' has none."""
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  return tuple(
    lr_shapes.warmup_steps(length, params.hparams, added)
    if warmup != 'none'
    else 0
    for length, warmup, added in zip(
      lengths, params.warmups, params.alter_warmup
    )
  )


def cycle_rows(step_hint: int, params: ScheduleParams) -> list[tuple[str, ...]]:
  """A header and a row for each cycle when none is left early.

  Args:
    step_hint: the workload's, steps.
    params: the chain.

  Returns:
    Number of the cycle; its first and last step, counted from 1 as evaluations
    count them; shape and steps of the warm-up; peak; decay; share of all steps.
  """
  rows = [
    ('cycle', 'first', 'last', 'warm-up', 'steps', 'peak', 'decay', 'share')
  ]
  lengths = lr_schedule.cycle_lengths(step_hint, params)
  warmups, end = warmup_lengths(step_hint, params), 0
  for i, length in enumerate(lengths):
    start, end = end, end + length
    rows.append(
      (
        f'{i + 1}',
        f'{start + 1:,}',
        f'{end:,}',
        str(params.warmups[i]),
        f'{warmups[i]:,}',
        f'{params.hparams.learning_rate + params.alter_lr[i]:.4g}',
        str(params.decays[i]),
        f'{length / sum(lengths):.1%}',
      )
    )
  return rows


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
  """Rows in columns, aligned left, indented."""
  widths = [max(map(len, column)) for column in zip(*rows)]
  return [
    '  ' + '  '.join(map(str.ljust, row, widths)).rstrip() for row in rows
  ]

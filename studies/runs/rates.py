"""The learning rate at every step of a run, from the events in cycles.csv.

An event `cycle_start` or `clock` anchors the cycle clock; until the next one
the clock runs on by itself:

  local step = anchor_local + (step - anchor_step) * pace
  rate = scale * schedule(min(local step, length))

with the schedule and the length of the planned cycle `setting`. Older files
have neither `clock` nor anchor_local, scale and setting: their cycles start at
local step 0, unscaled, and are those of the plan.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from ...schedule_params import ScheduleParams
from ...schedules import cycle_clock
from ...schedules.cycle_clock import CycleClock
from ...schedules.lr_schedule import lay_out
from .log import Log


class Anchor(NamedTuple):
  """The clock as an event has set it."""

  step: int  # the step about to be taken
  starts: bool  # whether a cycle starts here
  setting: int  # index of the planned cycle, from 0
  local: float  # anchor_local, nominal steps
  pace: float  # nominal steps per step
  scale: float  # factor of the rate


def read_anchors(events: Log, num_cycles: int) -> tuple[Anchor, ...]:
  """What the events say of the clock.

  Args:
    events: of cycles.csv.
    num_cycles: cycles of the plan.

  Raises:
    ValueError: if a value is missing or out of range, or an event is out of
      order.
  """
  rows = [r for r in events.rows if r.get('event') in ('cycle_start', 'clock')]
  log = Log(events.path, rows)
  starts = np.array([row['event'] == 'cycle_start' for row in rows], bool)
  columns = {
    'global_step': log.whole_numbers('global_step'),
    'event': starts,
    'setting': _settings(log, starts),
    'anchor_local': _numbers_or(log, 'anchor_local', 0.0),
    'pace': log.numbers('pace'),
    'scale': _numbers_or(log, 'scale', 1.0),
  }
  _check(log, columns, num_cycles)
  return tuple(
    Anchor(*row) for row in zip(*(c.tolist() for c in columns.values()))
  )


def _settings(log: Log, starts: np.ndarray) -> np.ndarray:
  """Indices from 0; an event `clock` is about the cycle that has started."""
  if starts.size and not starts[0]:
    raise ValueError(f'{log.path} has a clock before the first cycle_start.')
  # Per row: an older run may have been resumed since.
  begun = [
    {'setting': row.get('setting') or row.get('cycle')}
    for row, at in zip(log.rows, starts)
    if at
  ]
  settings = Log(log.path, begun).whole_numbers('setting') - 1
  return settings[np.cumsum(starts) - 1]


def _numbers_or(log: Log, column: str, default: float) -> np.ndarray:
  values = log.numbers(column)
  return np.where(np.isnan(values), default, values)


def _check(log: Log, columns: dict[str, np.ndarray], num_cycles: int) -> None:
  setting, pace = columns['setting'], columns['pace']
  right = {
    'global_step': (
      np.diff(columns['global_step'], prepend=0) >= 0,
      'in order',
    ),
    'setting': (
      (setting >= 0) & (setting < num_cycles),
      f'from 1 to {num_cycles}, the cycles of the plan',
    ),
    'anchor_local': (np.isfinite(columns['anchor_local']), 'finite'),
    'pace': (np.isfinite(pace) & (pace > 0), 'positive and finite'),
    'scale': (np.isfinite(columns['scale']), 'finite'),
  }
  for name, (is_right, what) in right.items():
    if not is_right.all():
      row = int(np.flatnonzero(~is_right)[0])
      raise ValueError(
        f'{log.path}: {name} must be {what}, and is '
        f'{log.rows[row].get(name)!r} at step {columns["global_step"][row]}.'
      )


# Most seeds of a run have the same clock.
@functools.lru_cache(maxsize=64)
def at_all_steps(
  step_hint: int,
  params: ScheduleParams,
  anchors: tuple[Anchor, ...],
  last_step: int,
  from_tables: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
  """The steps of a run and the rate with which each of them was taken.

  Runs log a rate by itself, compiled like the step; older ones read it from
  tables, of which all rates are computed at once. The two are rounded
  differently (by up to 5e-6 of a small rate); either way the result is what the
  run has logged, to the last bit.

  Args:
    step_hint: the workload's, steps.
    params: the chain.
    anchors: at least one.
    last_step: steps that the run has taken.
    from_tables: whether it is an older run.

  Returns:
    Steps and rates, shape=(n,), float32.
  """
  cycles = lay_out(step_hint, params)
  steps = np.arange(anchors[0].step, max(last_step, anchors[0].step))
  clocks = _clocks(steps, anchors)
  read = functools.partial(cycle_clock.learning_rate, cycles=cycles)
  if from_tables:
    return steps, np.asarray(jax.vmap(read)(clocks))
  one_by_one = jax.jit(functools.partial(jax.lax.map, read))
  return steps, np.asarray(one_by_one(clocks))


def _clocks(steps: np.ndarray, anchors: Sequence[Anchor]) -> CycleClock:
  """The clock at each step; an array in each field."""
  at = _in_force(steps, anchors)

  def values(name: str, dtype: type) -> np.ndarray:
    return np.array([getattr(a, name) for a in anchors], dtype)[at]

  return CycleClock(
    count=steps.astype(np.int32),
    cycle=values('setting', np.int32),
    anchor_step=values('step', np.int32),
    anchor_local=values('local', np.float32),
    pace=values('pace', np.float32),
    scale=values('scale', np.float32),
  )


def _in_force(steps: np.ndarray, anchors: Sequence[Anchor]) -> np.ndarray:
  """For each step the index of the last anchor before it."""
  begin = [anchor.step for anchor in anchors]
  return np.searchsorted(begin, steps, side='right') - 1


def warmups(
  step_hint: int, params: ScheduleParams, anchors: Sequence[Anchor]
) -> list[tuple[float, float]]:
  """First step and end of each cycle's warm-up.

  Args:
    step_hint: the workload's, steps.
    params: the chain.
    anchors: of the run.
  """
  lengths = [cycle.warmup_steps for cycle in lay_out(step_hint, params)]
  firsts = [i for i, anchor in enumerate(anchors) if anchor.starts]
  return [
    _warmup(lengths[anchors[first].setting], anchors[first:end])
    for first, end in zip(firsts, [*firsts[1:], len(anchors)])
  ]


def _warmup(length: int, anchors: Sequence[Anchor]) -> tuple[float, float]:
  """It ends at anchor_step + (W - anchor_local) / pace of the right anchor.

  That is the first one for which this comes before the next anchor.

  Args:
    length: W, nominal steps.
    anchors: of one cycle.
  """
  start = end = float(anchors[0].step)
  for anchor, following in zip(anchors, [*anchors[1:], None]):
    end = anchor.step + (length - anchor.local) / anchor.pace
    if following is None or end <= following.step:
      break
  return start, max(start, end)

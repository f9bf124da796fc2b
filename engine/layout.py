"""Where cycles end: a chain laid over the steps of a run, and laid out anew.

A run with a horizon is timed: its cycles fill the steps up to it, end where an
evaluation is due, and are at least three intervals between evaluations long.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.clock import nominal_step
from ..core.plan import cycle_ends
from .state import Control, RunConfig, clock_of

# What a rate is multiplied by after a failure: see research/lost_runs/study.py.
RATE_AFTER_FAILURE = 0.5
# With fewer intervals, a cycle would be judged and reset by chance.
_FEWEST_INTERVALS = 3
# An evaluation within this share of an interval before the cycle's end counts
# as one of the annealed model.
NEARLY = 0.05
# Devices flush smaller rates to 0.
_SMALLEST = float(np.finfo(np.float32).tiny)


def following_cycle(
  control: Control, step: int, config: RunConfig, has_failed: bool
) -> Control | None:
  """The cycle that follows the one at hand; None if the cycles have run out.

  A timed run begins its chain anew after a failure. Otherwise the next cycle of
  the chain follows and, after the last one, that cycle again: in a timed run as
  many times as fit the remaining steps best, at its length scaled with the
  horizon; in other runs once, and the run ends later. A repetition after a
  failure has half of the rate.
  """
  cycles, rest = config.chain.cycles, control.planned_end - step
  fewest, rate_factor = _fewest_steps(control, config), control.rate_factor
  if has_failed:
    lower = RATE_AFTER_FAILURE * rate_factor
    is_rate = lower * min(c.cycle.peak for c in cycles) >= _SMALLEST
    rate_factor = lower if is_rate else rate_factor
  cycle = control._replace(start=step, anchor_step=step, anchor_nominal=0.0)
  if has_failed and config.is_timed:
    planned_end = step + max(rest, math.ceil(fewest), 1)
    first = cycle._replace(setting=0, rate_factor=rate_factor, chain_start=step)
    return laid_out(first._replace(planned_end=planned_end), step, config)
  has_room = rest >= max(fewest, 1)
  if has_room and control.setting + 1 < len(cycles):
    return laid_out(cycle._replace(setting=control.setting + 1), step, config)
  if not config.settings.repeat:
    return None
  nominal = cycles[-1].steps
  end = step + max(nominal, math.ceil(fewest))
  if config.is_timed and has_room:
    planned = control.planned_end - control.stage_start
    steps = nominal * planned / config.chain.steps
    further = max(round(rest / max(steps, fewest)), 1)
    end = cycle_ends(step, control.planned_end, [1.0] * further)[0]
  planned_end = max(control.planned_end, end)
  again = cycle._replace(setting=len(cycles) - 1, rate_factor=rate_factor)
  again = again._replace(end=end, planned_end=planned_end)
  return _aligned(again, step, config)


def laid_out(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle at hand with its end, or the first one that is long enough.

  The steps from its start to the planned end are split over this cycle and
  those to come. In a timed run a cycle that would be too short is skipped, and
  while no interval between evaluations is known, the cycle is laid over all of
  the steps.
  """
  lengths = [planned.cycle.length for planned in config.chain.cycles]
  fewest = _fewest_steps(control, config)
  if config.is_timed and not fewest:
    return control._replace(end=control.planned_end)  # which is to come
  for i in range(control.setting, len(lengths)):
    end = cycle_ends(control.start, control.planned_end, lengths[i:])[0]
    control = control._replace(setting=i, end=max(end, step + 1))
    if end > step and end - control.start >= fewest:
      break
  return _aligned(control, step, config)


def stretched(
  control: Control, step: int, config: RunConfig, previous_end: int
) -> Control:
  """The cycle with a new end and a new anchor, after the planned end has moved.

  Up to the third interval between evaluations of a run its chain is laid out
  anew, since the first ones have compilations in them. Later, what remains of
  the cycle and the cycles to come share the steps up to the new planned end by
  their nominal lengths. After the chain's last cycle repetitions may follow,
  which were planned to fill the steps up to the previous planned end.
  """
  lengths = [planned.steps for planned in config.chain.cycles]
  length = lengths[control.setting]
  nominal = nominal_step(clock_of(control, config), step)
  fewest = _fewest_steps(control, config)
  is_settled = 0 < fewest <= step  # three intervals of the run are over
  if control.start == 0 and not is_settled:
    control = laid_out(control._replace(setting=0), step, config)
    # The same share of the cycle has passed: among like cycles no rate jumps.
    nominal = nominal / length * lengths[control.setting]
    return control._replace(anchor_step=step, anchor_nominal=nominal)
  to_come = lengths[control.setting + 1 :]
  shares: list[float] = [length - nominal, *to_come]  # in nominal steps
  if not to_come:  # in steps
    shares = [control.end - step]
    if previous_end > control.end:
      shares.append(previous_end - control.end)
  end = max(cycle_ends(step, control.planned_end, shares)[0], step + 1)
  control = _aligned(control._replace(end=end), step, config)
  return control._replace(anchor_step=step, anchor_nominal=nominal)


def realigned(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle after an evaluation under a horizon that has not moved.

  Its end was chosen by earlier intervals, the first of which may be shorter. It
  stays if the next evaluations, at the newest interval, lead to it. It stays
  also if the usual interval leads to it from the evaluation before the last
  one: then the last one may be an extra one.
  """
  newest = control.intervals.newest_steps
  usual = control.intervals.median_steps
  if not config.is_timed or not newest:
    return control
  since_last = control.end - control.last.step
  since_evaluation = since_last % newest, (since_last + newest) % usual
  if min(since_evaluation) <= NEARLY * usual:
    return control
  moved = _aligned(control, step, config)
  if moved.end == control.end:
    return control
  nominal = nominal_step(clock_of(control, config), step)
  return moved._replace(anchor_step=step, anchor_nominal=nominal)


def _aligned(control: Control, step: int, config: RunConfig) -> Control:
  """The cycle, its end moved to where an evaluation is expected.

    end = last + ceil(n * interval)

  n is the whole number nearest to the end that keeps the cycle long enough: a
  cycle that waits for an evaluation stands still meanwhile. An end just after
  the last evaluation stays, or each one that comes too soon would put it off
  again. Where too few steps for a further cycle would remain, the cycle lasts
  up to the planned end, which lies before an evaluation.
  """
  end, last = control.end, control.last.step
  interval, fewest = (
    control.intervals.median_steps,
    _fewest_steps(control, config),
  )
  if not fewest or end >= control.planned_end:
    return control
  least = control.start + fewest
  if end < least or end - last > NEARLY * interval:
    n = max(round((end - last) / interval), 1)
    n = max(n, math.ceil((least - last) / interval))
    end = max(last + math.ceil(n * interval), step + 1)
  if control.planned_end - end < fewest:
    end = control.planned_end
  return control._replace(end=end)


def _fewest_steps(control: Control, config: RunConfig) -> float:
  """Steps that a cycle has at least; 0 if no number of them is too small."""
  if not config.is_timed:
    return 0.0
  return _FEWEST_INTERVALS * control.intervals.median_steps

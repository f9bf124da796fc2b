"""Where cycles end: a chain laid over the steps of a run, and laid out anew.

A run with a horizon is timed: its cycles fill the steps up to it, end where an
evaluation is due, and are at least three intervals between evaluations long.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.chain import cycle_ends
from ..core.clock import nominal_step
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
  the chain follows and, after the last one, that cycle again.
  """
  if has_failed and config.is_timed:
    return _chain_anew(control, step, config)
  is_last = control.setting + 1 == len(config.chain.cycles)
  if not is_last and _has_room(control, step, config):
    return _next_cycle(control, step, config)
  if config.settings.repeat:
    return _repetition(control, step, config, has_failed)
  return None


def _chain_anew(control: Control, step: int, config: RunConfig) -> Control:
  """The chain from its first cycle on, at half of the rate.

  The planned end stays, or is put off so that one cycle has enough steps.
  """
  least_end = step + max(math.ceil(_fewest_steps(control, config)), 1)
  first = _begin(control, step)._replace(
    setting=0,
    rate_factor=_lower_rate_factor(control, config),
    chain_start=step,
    planned_end=max(control.planned_end, least_end),
  )
  return laid_out(first, step, config)


def _next_cycle(control: Control, step: int, config: RunConfig) -> Control:
  """The next cycle of the chain that is long enough."""
  following = _begin(control, step)._replace(setting=control.setting + 1)
  return laid_out(following, step, config)


def _repetition(
  control: Control, step: int, config: RunConfig, has_failed: bool
) -> Control:
  """The last cycle of the chain again; at half of the rate after a failure.

  A timed run repeats it as many times as fit the remaining steps best, at its
  length scaled with the horizon. In other runs, and where no cycle has room,
  one repetition of its nominal length follows, and the run ends later.
  """
  last, fewest = config.chain.cycles[-1], _fewest_steps(control, config)
  if config.is_timed and _has_room(control, step, config):
    planned = control.planned_end - control.stage_start
    steps = last.steps * planned / config.chain.steps
    remaining = control.planned_end - step
    times = max(round(remaining / max(steps, fewest)), 1)
    end = cycle_ends(step, control.planned_end, [1.0] * times)[0]
  else:
    end = step + max(last.steps, math.ceil(fewest))
  again = _begin(control, step)._replace(
    setting=len(config.chain.cycles) - 1,
    end=end,
    planned_end=max(control.planned_end, end),
  )
  if has_failed:
    rate_factor = _lower_rate_factor(control, config)
    again = again._replace(rate_factor=rate_factor)
  return _aligned(again, step, config)


def _begin(control: Control, step: int) -> Control:
  """A cycle that starts at a step, its clock at 0; its end is still to come."""
  return control._replace(start=step, anchor_step=step, anchor_nominal=0.0)


def _has_room(control: Control, step: int, config: RunConfig) -> bool:
  """Whether the steps up to the planned end are enough for a cycle."""
  remaining = control.planned_end - step
  return remaining >= max(_fewest_steps(control, config), 1)


def _lower_rate_factor(control: Control, config: RunConfig) -> float:
  """What rates are multiplied by after a failure; not so small as to be 0."""
  lower = RATE_AFTER_FAILURE * control.rate_factor
  lowest_peak = min(planned.cycle.peak for planned in config.chain.cycles)
  return lower if lower * lowest_peak >= _SMALLEST else control.rate_factor


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

  While the first cycle of a run is at hand and three intervals between
  evaluations are not over, the chain is laid out anew: the first intervals have
  compilations in them. Later, what remains of the cycle and the cycles to come
  share the steps up to the new planned end by their nominal lengths. In the
  chain's last cycle, or a repetition of it, the steps up to the previous
  planned end were shared with repetitions to come, and the shares stay.
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

  Of the n that keep the cycle long enough, the one nearest to the end so far:
  a cycle that waits for an evaluation stands still meanwhile. An end just after
  the last evaluation stays. Otherwise each evaluation that comes a little too
  soon would put it off by an interval. Where too few steps for a further cycle
  would remain, the cycle lasts up to the planned end, which lies before an
  evaluation.
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

"""The cycles of a run: where each began and ended, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .reading import Event, ReportedRun

_ENDS = ('switch', 'pause', 'finish', 'hold')


class ReportedCycle(NamedTuple):
  """One cycle, or a part of one between two pauses."""

  number: str
  setting: str  # of the plan, from 1
  begin: int  # the first step
  end: int  # the first step after it, or after the last one that was taken
  reset: str  # the mode before it; empty for the first cycle
  tau: float  # of that reset; NaN without one
  peak: float  # highest rate with which a step was taken; NaN: not known
  last_rate: float  # of its last step
  best: int | None  # index of its best evaluation
  ended: str  # why; empty while it is going


def read_cycles(run: ReportedRun) -> list[ReportedCycle]:
  """The cycles that were started, in order."""
  starts = [
    i for i, event in enumerate(run.events) if event['event'] == 'cycle_start'
  ]
  ends = [*starts[1:], len(run.events)]
  before = [0, *(start + 1 for start in starts)]
  steps = zip(run.table.cycle_starts, run.table.cycle_ends)
  return [
    _cycle(
      run,
      run.events[start],
      run.events[since:start],
      run.events[start + 1 : end],
      span,
      is_last=end == len(run.events),
    )
    for start, end, since, span in zip(starts, ends, before, steps)
  ]


def _cycle(
  run: ReportedRun,
  start: Event,
  before: Sequence[Event],
  within: Sequence[Event],
  span: tuple[int, int],
  is_last: bool,
) -> ReportedCycle:
  """One cycle.

  Args:
    run: that it is of.
    start: its cycle_start.
    before: the events since the last cycle's start, its reset among them.
    within: those up to the next cycle's start.
    span: first step, and first step after it.
    is_last: whether no cycle has followed.
  """
  reset = next((e for e in before if e['event'] == 'reset'), {})
  begin, end = span
  table = run.table
  rates = table.rates[(table.rate_steps >= begin) & (table.rate_steps < end)]
  return ReportedCycle(
    number=start.get('cycle', ''),
    setting=start.get('setting', start.get('cycle', '')),
    begin=begin,
    end=end,
    reset=reset.get('mode', 'reset' if reset else ''),
    tau=float(reset.get('tau', 'nan')),
    peak=float(np.max(rates)) if rates.size else math.nan,
    last_rate=float(rates[-1]) if rates.size else math.nan,
    # A run that finishes is evaluated under a number one higher.
    best=run.best(begin, math.inf if is_last else end),
    ended=_why_ended(within, is_last),
  )


def _why_ended(within: Sequence[Event], is_last: bool) -> str:
  end = next((e for e in within if e['event'] in _ENDS), None)
  if end is None:
    return '' if is_last else 'at its planned end'
  words: Mapping[str, str] = {
    'switch': 'left early',
    'pause': 'paused',
    'finish': 'run ends',
    'hold': 'holds its last rate',
  }
  reason = end.get('reason')
  return words[end['event']] + (f': {reason}' if reason else '')

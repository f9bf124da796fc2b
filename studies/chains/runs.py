"""The recorded runs of a setting, one per workload and study."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...averaging.choosing import AGAIN, Choosing, observe, wanted
from ..real_runs.reading import RecordedRun
from .settings import (
  ALONE,
  CHOSEN,
  OR_ELSE,
  SELF,
  ChainSetting,
  TrialPoint,
)

_BOARD, _RULESET, _SELF_TUNING = 'v05', 'external', 'self'
_STOPPED_BEFORE = 0.5  # share of the run at its last evaluation
_LONGEST_WAIT = AGAIN + 1  # most slots of the other kind in a row

_COLUMNS = ('step', 'seconds', 'loss', 'metric')

# Runs by workload and study.
Runs = Mapping[tuple[str, str], RecordedRun]


def by_point(runs: Iterable[RecordedRun]) -> dict[TrialPoint, Runs]:
  """The runs of 2024 by their points: trials, and the self-tuning entries.

  Raises:
    ValueError: if a point has two runs on one workload in one study.
  """
  found: dict[TrialPoint, dict[tuple[str, str], RecordedRun]] = {}
  for run in runs:
    if run.board == _BOARD and run.ruleset in (_RULESET, _SELF_TUNING):
      trial = run.trial if run.ruleset == _RULESET else SELF
      own = found.setdefault(TrialPoint(run.submission, trial), {})
      place = (run.workload.name, run.study)
      if place in own:
        raise ValueError(
          f'{run.submission} {run.trial} has two runs on {place[0]} in '
          f'{place[1]}; a chain needs exactly one.'
        )
      own[place] = run
  return found


def runs_of(
  setting: ChainSetting, points: Mapping[TrialPoint, Runs], least: int = 3
) -> dict[tuple[str, str], RecordedRun]:
  """The runs of a setting, joined from those of two points if it has two.

  Args:
    setting: what a cycle runs.
    points: as returned by `by_point`.
    least: least number of evaluations; a run with fewer counts as missing.

  Raises:
    ValueError: if a point has no runs.
  """
  first = _long_enough(setting.first, points, least)
  if setting.how == ALONE or setting.second is None:
    return first
  second = _long_enough(setting.second, points, least)
  joined = {
    place: _joined(setting.how, first.get(place), second.get(place))
    for place in {**first, **second}
  }
  return {place: run for place, run in joined.items() if run is not None}


def _long_enough(
  point: TrialPoint, points: Mapping[TrialPoint, Runs], least: int
) -> dict[tuple[str, str], RecordedRun]:
  if point not in points:
    known = ', '.join(sorted({p.submission for p in points}))
    raise ValueError(
      f'there are no runs of {point} on board {_BOARD} with ruleset '
      f'{_RULESET}; there are runs of {known}.'
    )
  return {
    place: run
    for place, run in points[point].items()
    if run.step.size >= max(1, least)
  }


def has_stopped(run: RecordedRun | None) -> bool:
  """Whether a run is missing, or ended early without reaching its target.

  Early means before half of its step hint or maximum runtime. Why it ended is
  not recorded.
  """
  if run is None:
    return True
  return run.reached is None and bool(run.share[-1] < _STOPPED_BEFORE)


def _joined(
  how: str, first: RecordedRun | None, second: RecordedRun | None
) -> RecordedRun | None:
  if how == OR_ELSE:
    return second if second is not None and has_stopped(first) else first
  known = first if first is not None else second
  if known is None:
    return None
  none = known._replace(**{name: np.empty(0) for name in _COLUMNS})
  # RAW and AVERAGED are their indices.
  kinds = [_held(none if run is None else run) for run in (second, first)]
  choose = _as_chosen if how == CHOSEN else _in_turn
  slots = zip(choose(kinds), itertools.count())
  kept = [(run, i) for run, i in slots if i < run.step.size]
  return _merged(kept) if kept else None


def _held(run: RecordedRun) -> RecordedRun:
  """The run as if it had gone on after its target, with the same metric.

  Recorded runs end when they reach it. If an evaluation of the other kind comes
  at that time, the next one of this kind finds it reached.
  """
  if run.reached is None or run.step.size < 2:
    return run
  columns = {}
  for name in _COLUMNS:
    column = getattr(run, name)
    step = column[-1] - column[-2] if name in ('step', 'seconds') else 0.0
    last = column[run.reached] if name == 'metric' else column[-1]
    further = last + step * np.arange(1, _LONGEST_WAIT + 1)
    columns[name] = np.append(column, further)
  return run._replace(**columns)


def _in_turn(kinds: Sequence[RecordedRun]) -> list[RecordedRun]:
  """The run whose weights, raw or averaged, are evaluated at each slot."""
  longest = max(run.step.size for run in kinds)
  return [kinds[slot % 2] for slot in range(longest)]


def _as_chosen(kinds: Sequence[RecordedRun]) -> list[RecordedRun]:
  """Likewise, as the submission itself would choose.

  The slots of a run that has stopped are lost.
  """
  rises, known, chosen = kinds[0].workload.rises, Choosing(), []
  for slot in range(max(run.step.size for run in kinds)):
    kind = wanted(known, 'alternate')
    run = kinds[kind]
    metric = float(run.metric[slot]) if slot < run.step.size else math.nan
    known = observe(known, kind, metric, rises)
    chosen.append(run)
  return chosen


def _merged(kept: Sequence[tuple[RecordedRun, int]]) -> RecordedRun:
  """The evaluations of two runs as those of one, ordered by their seconds."""
  ordered = sorted(kept, key=lambda one: one[0].seconds[one[1]])
  columns = {
    name: np.array([getattr(run, name)[i] for run, i in ordered])
    for name in _COLUMNS
  }
  # The recorded steps of lawa_* are not training steps.
  columns['step'] = np.maximum.accumulate(columns['step'])
  return kept[0][0]._replace(**columns)

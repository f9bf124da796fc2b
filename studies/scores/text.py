"""Scores and times to the targets, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..text_table import table_lines
from . import profiles
from .times import TrialTimes, median_times, study_times


class Entry(NamedTuple):
  """A submission among those that it is compared with."""

  submission: str
  score: float
  targets: int  # base workloads that count as reached
  relative: np.ndarray  # shape=(workloads,); r(s, w)


def entries(
  trials: Sequence[TrialTimes], r_max: float = profiles.R_MAX
) -> list[Entry]:
  """The submissions with their scores, the best first.

  Args:
    trials: of all submissions.
    r_max: the largest ratio that counts.
  """
  times = median_times(trials)
  base = profiles.base_workloads(times)
  relative = profiles.ratios(profiles.base_times(times, base, r_max))
  found = [
    Entry(name, profiles.score(r, r_max), int(np.isfinite(r).sum()), r)
    for name, r in relative.items()
  ]
  return sorted(found, key=lambda entry: (-entry.score, entry.submission))


def score_lines(trials: Sequence[TrialTimes]) -> list[str]:
  """Scores, and below them the times behind them.

  Args:
    trials: of all submissions.
  """
  found = entries(trials)
  count = len(profiles.base_workloads(median_times(trials)))
  rows = [
    (f'{place}', e.submission, f'{e.score:.4f}', f'{e.targets} of {count}')
    for place, e in enumerate(found, start=1)
  ]
  studies = study_times(trials)
  workloads = sorted({trial.workload for trial in trials})
  cells = [
    (w, *(_cell(studies[entry.submission].get(w, {})) for entry in found))
    for w in workloads
  ]
  return [
    *table_lines([('', 'submission', 'score', 'targets'), *rows]),
    '',
    'Seconds to the target, median over studies; (3/5): in three of five.',
    *table_lines([('workload', *(row[0] for row in rows)), *cells]),
  ]


def _cell(seconds: Mapping[str, float]) -> str:
  if not seconds:
    return '-'
  values = list(seconds.values())
  median, reached = float(np.median(values)), int(np.isfinite(values).sum())
  text = f'{median:,.0f}' if math.isfinite(median) else 'never'
  return (
    text if reached in (0, len(values)) else f'{text} ({reached}/{len(values)})'
  )

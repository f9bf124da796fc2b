"""Scores of recorded runs."""

from __future__ import annotations

import math

import pytest

from recorded import make_run
from reset_cycles.studies.real_runs import reading, scored
from reset_cycles.studies.scores import text


def test_times_of_recorded_runs():
  runs = [
    make_run([1, 2, 3], [0.5, 1.0, 1.0], ruleset='self'),
    make_run([1, 2, 3], [0.5, 0.6, 0.7], ruleset='self', study='study_1'),
    make_run([1, 2, 3], [0.5, 1.0, 1.0]),
  ]
  assert scored.trial_times(runs) == [
    ('a', 'study_0', 'up', 2.0),
    ('a', 'study_1', 'up', math.inf),
  ]
  message = 'no runs of board=a100 with ruleset=self, but of v05 external'
  with pytest.raises(ValueError, match=message):
    scored.trial_times(runs, 'a100')


def test_the_scores_of_2024_are_those_that_were_published():
  found = text.entries(scored.trial_times(reading.read_runs()))
  published = {
    'schedule_free_adamw': 0.8542,
    'baseline': 0.8194,
    'nadamw_sequential': 0.3308,
  }
  assert [entry.submission for entry in found[:3]] == list(published)
  scores = {e.submission: round(e.score, 4) for e in found[:3]}
  assert scores == published
  assert [round(e.score, 4) for e in found[3:]] == [0.142, 0.0903, 0.0]
  assert [entry.targets for entry in found[:2]] == [7, 7]

"""Draws of studies."""

from __future__ import annotations

import numpy as np
import pytest

from reset_cycles.studies.chains import luck
from reset_cycles.studies.chains.board import Board
from reset_cycles.studies.chains.outcomes import Links, Outcomes
from reset_cycles.studies.chains.search import Scope

INF = np.inf
BOARD = Board({'entry': {'up': 10.0}}, ('up',), (), {'up': 100.0})


def links_of(reached):
  """Settings by studies, on one workload; a run that fails costs 50."""
  reached = np.array(reached, float)[:, None]
  single = Outcomes(reached, np.where(reached < INF, INF, 50.0))
  return [Links(single, single)]


def test_the_others_were_not_drawn():
  found = list(luck.draws(5, 200))
  assert len(found) == 200
  for drawn, others in found:
    assert drawn.size == 5 and others.size
    assert {*drawn, *others} == set(range(5))
    assert not {*drawn} & {*others}
  again = list(luck.draws(5, 200))
  assert all((a == b).all() for (a, _), (b, _) in zip(found, again))
  with pytest.raises(ValueError, match='num_studies=1'):
    list(luck.draws(1, 1))


def test_studies_that_are_equal_leave_nothing_to_luck():
  links = links_of([5 * [20], 5 * [INF]])
  [found] = luck.luck(links, BOARD, Scope(length=1), 1.5, 20)
  share = pytest.approx(2 / 3)  # r = 2
  assert found.in_sample == (share, share, share)
  assert found.other_studies == (share, share, share)
  assert (found.same, found.chosen) == (1.0, share)


def test_what_is_luck_falls_on_other_studies():
  """Each setting reaches its target in two studies, and fails in others."""
  reached = [
    [10, 10, INF, INF],
    [INF, 10, 10, INF],
    [INF, INF, 10, 10],
    [10, INF, INF, 10],
  ]
  [found] = luck.luck(links_of(reached), BOARD, Scope(length=1), 1.5, 100)
  assert found.in_sample[1] == 1.0
  assert found.other_studies[1] == 0.0
  assert found.same < 0.6

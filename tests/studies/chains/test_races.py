"""Races of two settings as a chain's first link."""

from __future__ import annotations

import numpy as np
import pytest

from recorded import FALLING, make_run
from reset_cycles.studies.chains import outcomes, races
from reset_cycles.studies.chains.outcomes import Outcomes
from reset_cycles.studies.chains.races import Probes
from reset_cycles.studies.chains.settings import TrialPoint, read_setting

INF = np.inf


def raced(*entered):
  """(reached, cost) of a race of (reached, cost, probe's cost, its best)."""
  columns = [np.array(column)[:, None, None] for column in zip(*entered)]
  found = races.race(
    Outcomes(*columns[:2]), Probes(*columns[2:]), np.array([[0, 1]])
  )
  return tuple(array.item() for array in found)


@pytest.mark.parametrize(
  ('first', 'second', 'expected'),
  [
    # The better one goes on after both probes: 3 + 4 + (50 - 3).
    ((50, INF, 3, 0.2), (INF, 60, 4, 0.1), (54, INF)),
    # The worse one is second: 3 + 4 + (60 - 4) + (50 - 3).
    ((50, INF, 3, 0.1), (INF, 60, 4, 0.2), (110, INF)),
    # Neither: all is paid once.
    ((INF, 50, 3, 0.1), (INF, 60, 4, 0.2), (INF, 110)),
    # Reached in a probe: 3 + 2.
    ((50, INF, 3, 0.9), (2, INF, 4, 0.1), (5, INF)),
    # Left in its probe: 1 + 4 + (60 - 4).
    ((INF, 1, 3, 0.9), (60, INF, 4, 0.1), (61, INF)),
    # No run: nothing is paid.
    ((INF, 0, 0, -INF), (60, INF, 4, 0.1), (60, INF)),
  ],
)
def test_what_a_race_costs(first, second, expected):
  assert raced(first, second) == expected


def test_where_probes_end():
  up = make_run([10, 20, 40], [0.3, 0.2, 0.9])
  down = make_run([10, 20, 40], [3, 4, 2], workload=FALLING)
  points = {
    TrialPoint('a', 'trial_1'): {
      ('up', 'study_0'): up,
      ('down', 'study_0'): down,
    }
  }
  settings = [read_setting('x', 'a/1')]
  found = outcomes.recorded(settings, points, ['up', 'down', 'other'])
  cost, best = races.probes(found, 0.15)
  assert cost[0].tolist() == [[20], [20], [0]]
  assert best[0].tolist() == [[0.3], [-3], [-INF]]
  assert races.probes(found, 0.5).cost[0].tolist() == [[40], [40], [0]]


def test_chains_may_begin_with_a_race():
  settings = [read_setting('x', f'a/{i}') for i in (1, 2, 3)]
  assert races.link_names(settings)[3:] == ['a/1~a/2', 'a/1~a/3', 'a/2~a/3']
  cost = np.arange(3.0)[:, None, None] + 10
  single = Outcomes(np.full_like(cost, INF), cost)
  links = races.with_races(single, Probes(cost / 10, cost))
  assert links.later is single
  assert links.first.cost.ravel().tolist() == [10, 11, 12, 21, 22, 23]

"""What settings and chains of them come to."""

from __future__ import annotations

import numpy as np
import pytest

from recorded import make_run
from reset_cycles.studies.chains import outcomes
from reset_cycles.studies.chains.outcomes import Links, Outcomes
from reset_cycles.studies.chains.settings import TrialPoint, read_setting

INF = np.inf


def chain_seconds(chain):
  """A chain of (seconds, reaches), one after the other."""
  spent = 0.0
  for seconds, reaches in chain:
    spent += seconds
    if reaches:
      return spent
  return INF


def random_outcomes(seed, settings, workloads=3, studies=5):
  rng = np.random.default_rng(seed)
  seconds = rng.uniform(1, 100, size=(settings, workloads, studies))
  reaches = rng.uniform(size=seconds.shape) < 0.5
  single = Outcomes(
    np.where(reaches, seconds, INF), np.where(reaches, INF, seconds)
  )
  return single, seconds, reaches


@pytest.mark.parametrize('chain', [[0], [1, 2], [2, 1, 0], [3, 3, 1, 2]])
def test_chains_go_on_until_the_target(chain):
  single, seconds, reaches = random_outcomes(7, settings=4)
  found = outcomes.chain_outcomes(Links(single, single), chain).reached[0]
  for place in np.ndindex(found.shape):
    links = [(seconds[(i, *place)], reaches[(i, *place)]) for i in chain]
    assert found[place] == pytest.approx(chain_seconds(links))


def test_all_pairs_at_once():
  single, _, _ = random_outcomes(8, settings=3)
  other, _, _ = random_outcomes(9, settings=2)
  together = outcomes.followed(single, other)
  assert together.reached.shape == (6, 3, 5)
  for i in range(3):
    for j in range(2):
      alone = outcomes.chain_outcomes(Links(single, other), [i, j])
      for found, expected in zip(together, alone):
        assert np.array_equal(found[2 * i + j], expected[0])


def test_where_runs_are_left_and_what_they_cost():
  workload = 'up'
  points = {
    TrialPoint('a', 'trial_1'): {
      (workload, 'study_0'): make_run([10, 20, 40], [0.5, 1.0, 1.0]),
      (workload, 'study_1'): make_run([10, 20, 40], [0.1, 0.1, 0.1]),
    },
    TrialPoint('b', 'trial_1'): {
      (workload, 'study_0'): make_run([5], [0.1]),
      (workload, 'study_2'): make_run([10, 50, 90], [0.2, 0.3, 1.0]),
    },
  }
  settings = [read_setting('x', name) for name in ('a/1', 'b/1')]
  found = outcomes.recorded(settings, points, ['up', 'down'])
  assert found.studies == ['study_0', 'study_1', 'study_2']
  reached, cost = outcomes.outcomes(found, outcomes.DEFAULT_POLICY)
  # f = .2 asks for .55 of the way.
  assert reached[:, 0].tolist() == [[20, INF, INF], [INF, INF, INF]]
  assert cost[:, 0].tolist() == [[INF, 20, 0], [0, 0, 50]]
  assert np.isinf(reached[:, 1]).all() and not cost[:, 1].any()
  reached, cost = outcomes.outcomes(found, 'never')
  assert reached[:, 0].tolist() == [[20, INF, INF], [INF, INF, 90]]
  # With one evaluation a run is charged, if that is asked for.
  found = outcomes.recorded(settings, points, ['up'], least=1)
  assert outcomes.outcomes(found, 'never').cost[1, 0].tolist() == [5, 0, INF]

"""AlgoPerf's score, from times to the targets."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest

from reset_cycles.studies.scores import profiles

DATA = pathlib.Path(__file__).parents[2] / 'data' / 'self_tuning_2024.json'
NEVER = math.inf


def test_ratios_are_to_the_fastest_on_each_workload():
  times = {'a': {'x': 10.0, 'y': 30.0}, 'b': {'x': 20.0, 'y': NEVER}}
  relative = profiles.ratios(times)
  assert relative['a'].tolist() == [1.0, 1.0]
  assert relative['b'].tolist() == [2.0, NEVER]


def test_what_nobody_has_reached_has_no_ratio():
  relative = profiles.ratios({'a': {'x': NEVER}, 'b': {'x': NEVER}})
  assert [r.tolist() for r in relative.values()] == [[NEVER], [NEVER]]


def test_a_profile_is_a_share_of_workloads():
  relative = np.array([1.0, 2.0, NEVER, 4.0])
  taus = np.array([1.0, 1.999, 2.0, 4.0])
  assert profiles.profile(relative, taus).tolist() == [0.25, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
  'relative, exact',
  [
    ([1.0, 1.0], 1.0),
    ([NEVER, NEVER], 0.0),
    ([4.0], 0.0),
    ([1.0, 2.5], 0.75),  # (3 + 1.5) / 6
    ([1.0, 2.0, NEVER], 5 / 9),
  ],
)
def test_the_score_is_the_area_under_the_profile(relative, exact):
  relative = np.array(relative)
  assert profiles.exact_score(relative) == pytest.approx(exact, abs=1e-15)
  # A point of 100 is 3 / 99 wide: each stair is off by half of that at most.
  assert abs(profiles.score(relative) - exact) <= 0.5 / 99 + 1e-15


def test_the_score_of_the_example():
  # 34 of 100 points are at 2 and more: (1 + 66.5 / 99) / 3.
  relative = np.array([1.0, 2.0, NEVER])
  assert profiles.score(relative) == pytest.approx(0.557239057, abs=1e-9)


def test_the_largest_ratio_can_be_another():
  assert profiles.exact_score(np.array([1.0, 2.0]), r_max=3.0) == 0.75


def test_a_time_beyond_r_max_is_not_reached():
  times = {'a': {'x': 10.0}, 'b': {'x': 40.0}, 'c': {'x': 40.5}}
  assert profiles.base_times(times, ['x']) == {
    'a': {'x': 10.0},
    'b': {'x': 40.0},
    'c': {'x': NEVER},
  }


def test_a_workload_that_is_missing_is_not_reached():
  times = {'a': {'x': 10.0}, 'b': {}}
  assert profiles.base_times(times, ['x'])['b'] == {'x': NEVER}


@pytest.mark.parametrize(
  'variant, base, kept',
  [
    (30.0, 20.0, 20.0),
    (NEVER, 20.0, NEVER),  # not on the variant
    (41.0, 20.0, NEVER),  # not soon enough on it
    (40.0, 20.0, 20.0),
    (30.0, NEVER, NEVER),
    (30.0, 80.0, NEVER),
  ],
)
def test_a_base_workload_counts_with_its_variant(variant, base, kept):
  times = {
    'fast': {'ogbg': 10.0, 'ogbg_model_size': 10.0},
    'one': {'ogbg': base, 'ogbg_model_size': variant},
  }
  counted = profiles.base_times(times, ['ogbg'])
  assert counted == {'fast': {'ogbg': 10.0}, 'one': {'ogbg': kept}}


def test_a_variant_counts_with_its_base_workload():
  # The fastest on the variant hasn't reached the base workload, so that it
  # sets no pace.
  times = {
    'out': {'ogbg': NEVER, 'ogbg_model_size': 1.0},
    'in': {'ogbg': 10.0, 'ogbg_model_size': 10.0},
  }
  assert profiles.base_times(times, ['ogbg'])['in'] == {'ogbg': 10.0}


def test_base_workloads_are_all_but_variants_of_the_benchmarks():
  times = {
    'a': {'ogbg': 1.0, 'ogbg_gelu': 1.0, 'digits': 1.0},
    'b': {'imagenet_resnet': 1.0, 'imagenet_resnet_silu': 1.0},
  }
  assert profiles.base_workloads(times) == [
    'digits',
    'imagenet_resnet',
    'ogbg',
  ]


@pytest.mark.oracle
def test_the_scores_of_2024_are_those_that_were_published():
  data = json.loads(DATA.read_text())
  times = {
    name: {w: NEVER if s is None else s for w, s in own.items()}
    for name, own in data['seconds'].items()
  }
  base = profiles.base_workloads(times)
  assert len(base) == 8
  relative = profiles.ratios(profiles.base_times(times, base))
  scores = {name: profiles.score(r) for name, r in relative.items()}
  for name, published in data['published'].items():
    assert round(scores[name], 4) == published
    assert abs(profiles.exact_score(relative[name]) - published) < 1e-3
  order = sorted(scores, key=scores.get, reverse=True)
  assert order[:3] == ['schedule_free_adamw', 'baseline', 'nadamw_sequential']

"""Search spaces of the external ruleset: points, and what is refused."""

from __future__ import annotations

import json
import math

import pytest

from reset_cycles.mini_algoperf import search_space


def test_ranges_give_points_within_their_bounds_and_spread():
  space = {
    'linear': {'min': -1.0, 'max': 3.0, 'scaling': 'linear'},
    'log': {'min': 1e-4, 'max': 1e-2, 'scaling': 'log'},
    'choice': {'feasible_points': ['a', 'b']},
  }
  points = search_space.generate_points(space, 64)
  assert len(points) == 64
  assert type(points[0]).__name__ == 'Hyperparameters'
  assert points[0]._fields == ('linear', 'log', 'choice')
  assert all(-1.0 <= p.linear <= 3.0 for p in points)
  assert all(1e-4 <= p.log <= 1e-2 for p in points)
  # A quasi-random sequence puts close to half of the points in each half, on
  # the log scale for the second.
  assert 29 <= sum(p.linear < 1.0 for p in points) <= 35
  assert 29 <= sum(math.log10(p.log) < -3 for p in points) <= 35
  assert 29 <= sum(p.choice == 'a' for p in points) <= 35


def test_points_are_the_same_in_every_run():
  space = {'x': {'min': 0.0, 'max': 1.0, 'scaling': 'linear'}}
  first = search_space.generate_points(space, 3)
  assert first == search_space.generate_points(space, 3)
  assert first[:2] == search_space.generate_points(space, 2)
  assert len(set(first)) == 3


def test_one_feasible_point_is_that_point():
  space = {'x': {'feasible_points': [0.5]}, 'y': {'feasible_points': [[1, 2]]}}
  assert search_space.generate_points(space, 2) == [(0.5, [1, 2])] * 2


def test_a_range_of_one_value_is_that_value():
  space = {'x': {'min': 2, 'max': 2, 'scaling': 'log'}}
  assert search_space.generate_points(space, 1) == [(2.0,)]


@pytest.mark.parametrize('num_trials, expected', [(1, 1), (2, 2), (9, 2)])
def test_a_list_gives_its_points_in_order(num_trials, expected):
  points = search_space.generate_points(
    [{'a': 1, 'b': 2}, {'a': 3, 'b': 4}], num_trials
  )
  assert points == [(1, 2), (3, 4)][:expected]
  assert points[0].b == 2


RANGE = {'min': 1.0, 'max': 2.0, 'scaling': 'log'}


@pytest.mark.parametrize(
  'space, message',
  [
    ({}, 'object of ranges or a list'),
    ([], 'object of ranges or a list'),
    (3, 'object of ranges or a list'),
    ([1], 'point 0 is 1'),
    ([{'a': 1}, {'b': 1}], r"point 1 has \['b'\]"),
    ({'a': 1}, 'a=1: needs feasible_points alone, or min, max, scaling'),
    ({'a': {'feasible_points': []}}, 'feasible_points must be a list'),
    ({'a': {'feasible_points': 1}}, 'feasible_points must be a list'),
    ({'a': {'min': 1.0}}, 'needs feasible_points alone, or min, max, scaling'),
    ({'a': {**RANGE, 'scaling': 'sqrt'}}, 'scaling must be linear or log'),
    ({'a': {**RANGE, 'min': '1'}}, 'min and max must be numbers'),
    ({'a': {**RANGE, 'max': True}}, 'min and max must be numbers'),
    ({'a': {**RANGE, 'min': 5.0}}, 'min must be at most max'),
    ({'a': {**RANGE, 'min': 0.0}}, 'min must be above 0 for log'),
    ({'a': {**RANGE, 'step': 0.1}}, 'needs feasible_points alone'),
    ({'a': {**RANGE, 'feasible_points': [1]}}, 'needs feasible_points alone'),
    ({'a b': RANGE}, "'a b' cannot be the name"),
    ({'class': RANGE}, "'class' cannot be the name"),
    ([{'_a': 1}], "'_a' cannot be the name"),
  ],
)
def test_what_is_refused(space, message):
  with pytest.raises(ValueError, match=message):
    search_space.generate_points(space, 1)


def test_errors_of_a_file_name_it(tmp_path):
  missing, broken = tmp_path / 'no.json', tmp_path / 'broken.json'
  broken.write_text('{"a": ')
  with pytest.raises(ValueError, match='no.json: there is no such file'):
    search_space.read_points(str(missing), 1)
  with pytest.raises(ValueError, match='broken.json is not valid JSON'):
    search_space.read_points(str(broken), 1)
  broken.write_text(json.dumps({'a': 1}))
  with pytest.raises(ValueError, match='broken.json: a=1: needs'):
    search_space.read_points(str(broken), 1)

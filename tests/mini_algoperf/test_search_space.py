"""Search spaces of the external ruleset: points, and what is refused."""

from __future__ import annotations

import json

import pytest

from reset_cycles.mini_algoperf import search_space


@pytest.fixture
def read(tmp_path):
  """read(space, number of trials) -> points."""

  def read(space, num_trials):
    path = tmp_path / 'space.json'
    path.write_text(json.dumps(space))
    return search_space.read_points(str(path), num_trials)

  return read


def test_an_object_is_one_point(read):
  space = {'x': {'feasible_points': [0.5]}, 'y': {'feasible_points': [[1, 2]]}}
  (point,) = read(space, 2)
  assert point == (0.5, [1, 2])
  assert type(point).__name__ == 'Hyperparameters'


@pytest.mark.parametrize('num_trials', [1, 2, 9])
def test_a_list_gives_its_points_in_order(num_trials, read):
  points = read([{'a': 1, 'b': 2}, {'a': 3, 'b': 4}], num_trials)
  assert points == [(1, 2), (3, 4)][:num_trials]
  assert points[0].b == 2


@pytest.mark.parametrize(
  'space, message',
  [
    ({}, 'list of points or an object'),
    ([], 'list of points or an object'),
    (3, 'list of points or an object'),
    ([1], 'point 0 is 1'),
    ([{'a': 1}, {'b': 1}], r"point 1 has \['b'\]"),
    ({'a': 1}, 'a=1: needs feasible_points alone'),
    ({'a': {'feasible_points': []}}, 'a list of one value'),
    ({'a': {'feasible_points': [1, 2]}}, 'a list of one value'),
    ({'a': {'feasible_points': 1}}, 'a list of one value'),
    ({'a': {'feasible_points': [1], 'min': 1}}, 'needs feasible_points alone'),
    ({'a b': {'feasible_points': [1]}}, "'a b'"),
    ([{'_a': 1}], "'_a'"),
  ],
)
def test_what_is_refused(space, message, read):
  with pytest.raises(ValueError, match=f'space.json: .*{message}'):
    read(space, 1)

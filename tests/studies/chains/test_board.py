"""Chains among the entries of a board."""

from __future__ import annotations

import numpy as np
import pytest

from reset_cycles.studies.chains import board as board_lib
from reset_cycles.studies.chains.board import Board
from reset_cycles.studies.real_runs import reading
from reset_cycles.studies.scores import profiles

INF = np.inf


@pytest.fixture(scope='module')
def board():
  return board_lib.read_board(reading.read_runs())


def test_the_board_of_2024(board):
  assert len(board.base) == 8 and len(board.variants) == 6
  assert set(board.times) == {
    'adamg',
    'baseline',
    'nadamw_sequential',
    'schedule_free_adamw',
    'sinv6',
    'sinv6_75',
  }


def test_an_entry_of_the_board_gets_its_own_score(board):
  """The published scores, to the last digit."""
  for name, published in (
    ('schedule_free_adamw', 0.8542),
    ('baseline', 0.8194),
  ):
    scores = board_lib.official(board.times[name], board)
    assert round(scores.with_held_out, 4) == published
    assert scores.targets == 7


def test_shares_are_those_of_the_exact_score():
  fastest = np.array([10.0, 10.0, INF, INF])
  times = np.array([[20.0, 5.0, 7.0, INF], [40.0, INF, INF, INF]])
  found = board_lib.shares(times, fastest)
  # r is 2, 1, 1 and infinite, and 4.
  assert np.allclose(found, [[2 / 3, 1, 1, 0], [0, 0, 0, 0]])
  for row, own in zip(found, times):
    entered = {'them': dict(enumerate(fastest)), 'us': dict(enumerate(own))}
    relative = profiles.ratios(entered)['us']
    assert row.mean() == pytest.approx(profiles.exact_score(relative))


@pytest.mark.parametrize('studies', [1, 2, 3, 4, 5])
def test_the_median_over_studies(studies):
  times = np.random.default_rng(studies).uniform(size=(4, 3, studies))
  assert np.allclose(board_lib.median(times), np.median(times, axis=-1))
  times[0, 0, : studies // 2 + 1] = INF
  assert np.isinf(board_lib.median(times)[0, 0])


def test_a_budget_is_a_multiple_of_the_maximum_runtime():
  board = Board({}, ('a', 'b'), (), {'a': 10.0, 'b': 20.0})
  reached = np.array([[[15.0, 15.1], [30.0, 30.1]]])
  found = board_lib.within(reached, board, ('a', 'b'), 1.5)
  assert found.tolist() == [[[15.0, INF], [30.0, INF]]]


def test_a_held_out_variant_that_is_missed_costs_its_workload(board):
  times = {name: 1.0 for name in board.workloads}
  scores = board_lib.official(times, board)
  assert (scores.exact, scores.with_held_out, scores.variants) == (1, 1, 1)
  scores = board_lib.official({**times, 'wmt_glu_tanh': INF}, board)
  assert (scores.exact, scores.targets) == (1, 8)
  assert scores.with_held_out == pytest.approx(7 / 8)
  assert scores.variants == pytest.approx(5 / 6)

"""Who goes on in a race: whole races, written out, and against a twin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.control.history import (
  OVER,
  PAUSED,
  Mark,
  Standing,
  end_stint,
  is_nearest,
  observe,
)
from reset_cycles.control.policies.tournament import Tournament, wrong_rounds
from reset_cycles.control.state import Evaluation, Target

NAN, INF = math.nan, math.inf


def hold(tournament, curves, leaves=lambda entry, until: False):
  """The turns of a whole race.

  Args:
    curves: per cycle what it has at the end of each of its stints: a share of
      the way, or (best, last, loss).
    leaves: whether the rule leaves a cycle in a stint.
  """
  entries, turns = [Standing()] * len(curves), []
  while (turn := tournament.turn(entries)) is not None:
    turns.append(turn)
    i, entry = turn.entry, entries[turn.entry]
    curve = curves[i]
    values = curve[min(entry.stints, len(curve) - 1)]
    mark = Mark(*values) if isinstance(values, tuple) else Mark(values)
    is_over = turn.until == INF or leaves(i, turn.until)
    state = OVER if is_over else PAUSED
    entries[i] = end_stint(entry._replace(now=mark), state)
  return turns


def test_five_for_a_while_and_then_the_best_the_next_best_and_so_on():
  curves = [[0.1], [0.4], [0.3], [0.5], [0.2], [0.9], [0.8]]
  assert hold(Tournament(), curves) == [
    *((i, 0.08) for i in range(5)),
    *((i, INF) for i in (3, 1, 2, 4, 0)),
    (5, INF),  # these were never in play
    (6, INF),
  ]


def test_halving():
  race = Tournament(4, (0.1, 0.2, 0.4), (3, 2))
  # 2 falls behind in the second round, 0 in the third.
  curves = [[0.4, 0.5, 0.6], [0.1], [0.3, 0.3], [0.2, 0.4, 0.7]]
  assert hold(race, curves) == [
    *((i, 0.1) for i in range(4)),
    *((i, 0.2) for i in (0, 2, 3)),
    *((i, 0.4) for i in (0, 3)),
    *((i, INF) for i in (3, 0, 2, 1)),
  ]


def test_who_is_left_is_out():
  race = Tournament(3, (0.1, 0.2), (2,))
  found = hold(race, [[0.5], [0.4], [0.3]], lambda i, until: i == 0)
  assert found == [
    (0, 0.1),
    (1, 0.1),
    (2, 0.1),
    (1, 0.2),
    (2, 0.2),
    (1, INF),
    (2, INF),
  ]


def test_equal_ones_stay_in_their_order():
  assert hold(Tournament(3), 3 * [[0.5]])[3:] == [(i, INF) for i in range(3)]


@pytest.mark.parametrize(
  'by, order',
  [
    ('best', [0, 1, 2]),
    ('last', [2, 1, 0]),
    # By way 0, 1, 2 are in front, by loss 2, 0, 1: sums 1, 3, 2.
    ('ranks', [0, 2, 1]),
  ],
)
def test_criteria(by, order):
  curves = [[(0.9, 0.1, 2.0)], [(0.8, 0.2, 3.0)], [(0.7, 0.3, 1.0)]]
  found = hold(Tournament(3, by=by), curves)
  assert [turn.entry for turn in found[3:]] == order


def test_who_is_too_far_behind_does_not_play_on():
  curves = [[0.5], [0.35], [0.45]]
  race = Tournament(3, (0.1, 0.2), (3,), behind=0.1)
  assert hold(race, curves)[3:5] == [(0, 0.2), (2, 0.2)]
  race = Tournament(3, (0.1, 0.2), (3,), behind=0.0)
  assert hold(race, curves)[3:] == [(0, 0.2), *((i, INF) for i in (0, 2, 1))]


def test_no_race_where_the_first_is_far_enough():
  race = Tournament(2, (0.1,), enough=0.6)
  assert hold(race, [[0.6], [0.2], [0.7]]) == [
    (0, 0.1),
    (0, INF),
    # That came to nothing: the others race.
    (1, 0.1),
    (2, 0.1),
    (2, INF),
    (1, INF),
  ]
  assert hold(race, [[0.59], [0.2], [0.7]])[:2] == [(0, 0.1), (1, 0.1)]


def test_nobody_comes_anywhere():
  race = Tournament(2, (0.1, 0.2), (1,), 'ranks', behind=0.0)
  found = hold(race, 2 * [[-INF]], lambda i, until: True)
  assert found == [(0, 0.1), (1, 0.1)]


def whole_race(probes, rounds, keep, scores):
  """A slow twin, round by round: scores[i][r] is cycle i's after stint r."""
  field = list(range(len(scores)))[:probes]
  never, out, turns = list(range(len(scores)))[probes:], [], []
  for r, until in enumerate(rounds):
    turns += [(i, until) for i in field]
    field.sort(key=lambda i: -scores[i][r])
    count = [*keep, len(field)][r]
    out = field[count:] + out
    field = field[:count]
  return turns + [(i, INF) for i in field + out + never]


def test_races_agree_with_the_twin():
  rng = np.random.default_rng(0)
  for _ in range(100):
    count, probes = rng.integers(1, 8, 2).tolist()
    rounds = tuple(np.cumsum([0.1] * int(rng.integers(1, 4))).tolist())
    keep = sorted(rng.integers(1, probes + 1, len(rounds) - 1).tolist())[::-1]
    # Scores may fall from one stint to the next.
    scores = rng.random((count, 3)).tolist()
    curves = [[(0.0, score, INF) for score in own] for own in scores]
    race = Tournament(probes, rounds, tuple(keep), by='last')
    assert hold(race, curves) == whole_race(probes, rounds, keep, scores)


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'rounds': ()}, 'rounds has 0 numbers; it must have 1 to 3'),
    ({'rounds': (0.1, 0.2, 0.3, 0.4)}, 'rounds has 4 numbers'),
    ({'keep': (2,)}, 'keep has 1 numbers and rounds 1'),
    ({'rounds': (0.1, 0.2), 'keep': (6,)}, 'with 5 probes; it must not rise'),
    ({}, ''),
    ({'rounds': (0.1, 0.2), 'keep': (5,)}, ''),
  ],
)
def test_rounds_that_are_none(changes, message):
  found = wrong_rounds({'probes': 5, 'rounds': (0.1,), 'keep': (), **changes})
  assert message in found and bool(message) == bool(found)


def test_what_is_kept_of_a_cycle():
  target, entry = Target('', 2.0, True), Standing()
  for share, metric, loss in (
    (0.1, 1.0, 3.0),
    (0.3, NAN, INF),
    (0.4, 0.5, 2.0),
  ):
    entry = observe(entry, Evaluation(0, loss, metric), share, target, 0.1)
    if share == 0.3:
      assert entry.now == (0.5, -INF, INF)
  assert entry.now == (0.5, 0.25, 2.0)
  assert (entry.share, entry.spacing) == (0.4, pytest.approx(0.2))


def test_a_stint_ends_at_the_nearest_evaluation():
  entry = Standing(share=0.6, spacing=0.2)
  assert is_nearest(entry, 0.69)
  assert not is_nearest(entry, 0.71)

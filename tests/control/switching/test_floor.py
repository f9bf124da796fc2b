"""The floor, whole cycles by hand."""

from __future__ import annotations

import math

import jax
import pytest

from reset_cycles.control.state import Evaluation, Target
from reset_cycles.control.switching import SWITCHING_RULES, Context

NAN, INF = math.nan, math.inf
RISING = Target('validation/x', 1.0, True)


def watch(evaluations, target=RISING, first=NAN, **parameters):
  """Verdicts on [(f, loss, metric)], one after the other."""
  rule = SWITCHING_RULES.make(
    SWITCHING_RULES.read('switching', {'name': 'floor', **parameters})
  )
  state, verdicts = rule.initial, []
  for f, loss, metric in evaluations:
    context = Context(f, f, target, first)
    state, verdict = rule.observe(state, Evaluation(1, loss, metric), context)
    verdicts.append(verdict)
  return verdicts


def test_a_whole_cycle():
  cycle = [
    (0.05, 3.0, 0.0),
    (0.1, 2.0, 0.1),  # at the floor: it goes on
    (0.15, 2.0, 0.3),
    (0.2, 2.0, 0.45),
    (0.25, 2.0, 0.2),  # the best one counts
    (0.3, 2.0, NAN),
    (0.35, 2.0, 0.56),
    (1.0, 2.0, 0.97),
  ]
  verdicts = watch(cycle)
  assert [v.terms['floor'] for v in verdicts] == [
    -INF,
    0.1,
    0.1,
    0.4,
    0.4,
    0.55,
    0.55,
    0.965,
  ]
  best = [v.terms['best_progress'] for v in verdicts]
  assert best == [0.0, 0.1, 0.3, 0.45, 0.45, 0.45, 0.56, 0.97]
  behind = 'behind the floor'
  assert [v.reason for v in verdicts] == ['', '', '', '', '', behind, '', '']


def test_a_metric_that_falls_counts_on_a_log_scale():
  target = Target('validation/x', 1.0, False)
  # From 16: log2 of 16 is 4, so that 4 has come half of the way.
  [at, before] = watch([(0.2, 1.0, 4.0), (0.3, 1.0, 4.0)], target, 16.0)
  assert at.terms['progress'] == 0.5
  assert (at.reason, before.reason) == ('', 'behind the floor')


@pytest.mark.parametrize('loss', [NAN, INF, -INF])
def test_a_loss_that_is_not_finite_ends_a_cycle_at_once(loss):
  [verdict] = watch([(0.01, loss, 0.9)])
  assert verdict.reason == 'loss is not finite'


def test_no_finite_metric_at_all():
  verdicts = watch([(0.05, 1.0, NAN), (0.1, 1.0, NAN)])
  assert [v.reason for v in verdicts] == ['', 'behind the floor']


def test_another_floor():
  verdicts = watch(
    [(0.4, 1.0, 0.1), (0.5, 1.0, 0.1)], shares=[0.5], least=[0.2]
  )
  assert [v.reason for v in verdicts] == ['', 'behind the floor']


@pytest.mark.parametrize(
  'parameters, message',
  [
    ({'shares': [0.5]}, 'shares has 1 numbers and least 9'),
    ({'shares': [0.5, 0.2], 'least': [0, 1]}, 'rising order'),
    ({'shares': [0.5], 'least': ['x']}, r'least\[0\]'),
  ],
)
def test_a_floor_that_is_none(parameters, message):
  with pytest.raises(ValueError, match=message):
    watch([], **parameters)


def test_its_state_is_a_number():
  assert jax.tree_util.tree_leaves(SWITCHING_RULES.make('floor').initial) == [
    -INF
  ]

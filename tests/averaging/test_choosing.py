"""Raw and averaged weights in turn, until one has proved better."""

from __future__ import annotations

import math

import pytest

from reset_cycles.averaging.choosing import (
  AGAIN,
  AVERAGED,
  RAW,
  UNKNOWN,
  Choosing,
  begin_cycle,
  observe,
  wanted,
)


def run(metric, steps, rising=True, known=None, begun=0):
  """('r' or 'a' for each evaluation, what is known) of a made-up run.

  Args:
    metric: (evaluation, kind) -> the target metric.
    steps: evaluations.
    rising: whether a larger one is better.
    known: before the first.
    begun: evaluations before there is an average.
  """
  known, seen = known or Choosing(), ''
  for n in range(steps):
    kind = wanted(known, 'alternate') if n >= begun else RAW
    seen += 'ra'[kind]
    known = observe(known, kind, metric(n, kind), rising)
  return seen, known


def test_in_turn_and_then_the_better_one():
  """Progress of .01 per evaluation; the average is ahead by half of it."""
  ahead = {RAW: 0.0, AVERAGED: 0.005}
  seen, known = run(lambda n, kind: 0.01 * n + ahead[kind], 7, begun=1)
  assert (seen, known.better) == ('raraaaa', AVERAGED)
  seen, known = run(lambda n, kind: 0.01 * n - ahead[kind], 7, begun=1)
  assert (seen, known.better) == ('rarrrrr', RAW)


def test_a_metric_that_falls():
  ahead = {RAW: 0.0, AVERAGED: -0.005}
  seen, known = run(
    lambda n, kind: 9 - 0.01 * n + ahead[kind], 6, rising=False, begun=1
  )
  assert (seen, known.better) == ('raraaa', AVERAGED)


def test_the_other_one_is_tried_again_after_eight():
  def metric(n, kind):
    """At first the average is better, from evaluation 20 on the raw weights."""
    return 1.0 if (kind == AVERAGED) == (n < 20) else 0.5

  seen, known = run(metric, 34, begun=1)
  assert AGAIN == 8
  # Decided at the third; then eight averaged in a row and a raw one between.
  found = ['rar', 'a' * 8, 'r', 'a' * 8, 'r', 'a', 'r' * 8, 'a', 'r' * 3]
  assert seen == ''.join(found)
  assert known.better == RAW


def test_what_is_not_finite_is_worse():
  seen, known = run(
    lambda n, kind: math.nan if kind == AVERAGED else 0.1, 6, begun=1
  )
  assert (seen, known.better) == ('rarrrr', RAW)
  seen, known = run(
    lambda n, kind: math.nan if kind == RAW else 0.1, 6, begun=1
  )
  assert (seen, known.better) == ('raraaa', AVERAGED)


def test_nothing_is_known_before_three_in_turn():
  known = Choosing()
  for n, kind in enumerate((RAW, RAW, RAW, AVERAGED)):
    known = observe(known, kind, 0.1 * n, True)
    assert known.better == UNKNOWN
  assert wanted(known, 'alternate') == RAW
  assert observe(known, RAW, 0.1, True).better == AVERAGED


def test_a_new_cycle_keeps_what_was_found_and_no_metric():
  _, known = run(lambda n, kind: float(kind), 5, begun=1)
  fresh = begin_cycle(known)
  assert (fresh.better, fresh.last, fresh.before) == (
    AVERAGED,
    UNKNOWN,
    UNKNOWN,
  )
  # Two evaluations of other models decide nothing with one of this cycle.
  after = observe(fresh, RAW, 0.9, True)
  assert observe(after, AVERAGED, 0.1, True).better == AVERAGED
  assert wanted(fresh, 'alternate') == AVERAGED


@pytest.mark.parametrize('better', [RAW, AVERAGED, UNKNOWN])
def test_averaged_means_always(better):
  for last in (RAW, AVERAGED, UNKNOWN):
    assert wanted(Choosing(better=better, last=last), 'averaged') == AVERAGED

"""Evaluations as they are read, by hand."""

import math

import numpy as np
import pytest

from reset_cycles.core.evaluation import (
  Evaluation,
  Target,
  new_evaluations,
  read_evaluation,
)

NAN, INF = math.nan, math.inf
ACCURACY = Target('validation/accuracy', 0.8, True)


def test_an_evaluation_without_the_target_metric():
  with pytest.raises(
    ValueError,
    match="'validation/accuracy': must be among .* test/loss, validation/l",
  ):
    read_evaluation(5, {'validation/loss': 1.0, 'test/loss': 2.0}, ACCURACY)


def results(loss, accuracy):
  return {'validation/loss': loss, 'validation/accuracy': accuracy}


@pytest.mark.parametrize(
  ('name', 'value'),
  (
    ('validation/accuracy', None),
    ('validation/loss', 'low'),
    ('accumulated_submission_time', 'noon'),
    ('accumulated_submission_time', None),
  ),
)
def test_a_result_that_is_no_number(name, value):
  given = {**results(1.0, 0.5), name: value}
  with pytest.raises(
    ValueError, match=f'^{name}={value!r}: must be a number.$'
  ):
    read_evaluation(5, given, ACCURACY)


def test_new_evaluations():
  """Entries may be mangled by one or several preemptions, and out of order."""
  entries = [
    (9, results(1.0, 0.3)),
    ({'0': 1, '1': results(3.0, 0.1)}, '0'),
    ({'0': {'0': np.int32(5), '1': results(2.0, 0.2)}, '1': '1'}, '1'),
    (9, results(1.0, 0.3)),
  ]
  expected = [Evaluation(5, 2.0, 0.2), Evaluation(9, 1.0, 0.3)]
  assert new_evaluations(entries, 1, ACCURACY) == expected
  assert new_evaluations(entries, 9, ACCURACY) == []
  assert new_evaluations(None, -1, ACCURACY) == []


@pytest.mark.parametrize(
  ('given', 'loss', 'seconds'),
  (
    ({'validation/loss': 1.0, 'validation/ctc_loss': 2.0}, 1.0, math.nan),
    ({'validation/ctc_loss': 2.0}, 2.0, math.nan),
    ({'accumulated_submission_time': 12.5}, 0.5, 12.5),
  ),
)
def test_what_an_evaluation_has(given, loss, seconds):
  given = {**given, 'validation/accuracy': 0.5}
  found = read_evaluation(7, given, ACCURACY)
  np.testing.assert_equal(found, Evaluation(7, loss, 0.5, seconds))


# The horizon.


# 60 s of compilation; then 100 steps in 10 s. Evaluations at 60, 70, 80, ...

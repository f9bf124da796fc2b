"""What each kind of parameter takes, keeps and refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.settings import kinds

NEXT_BELOW_ONE, TINY = math.nextafter(1, 0), math.nextafter(0, 1)
NO_NUMBERS = ('1', None, True, math.nan, math.inf, -math.inf, 10**400, [1], 1j)

# What is taken, and what is not though it is a number.
NUMBERS = {
  'Number': ((-3.4e38, 0, 3.4e38, np.float32(2)), ()),
  'Fraction01': ((0, 0.0, 1), (-TINY, math.nextafter(1, 2))),
  'Share': ((TINY, 1), (0, -1, math.nextafter(1, 2))),
  'BelowOne': ((0, NEXT_BELOW_ONE), (-TINY, 1)),
  'Inner': ((TINY, NEXT_BELOW_ONE), (0, 1)),
  'Positive': ((TINY, 3.4e38), (0, -1)),
  'NotNegative': ((0, 3.4e38), (-TINY,)),
  'AtLeastOne': ((1, 3.4e38), (NEXT_BELOW_ONE,)),
  'Count': ((1, np.int64(3), 10**30), (0, -1, 1.0, 1.5)),
}


def read(annotation, value):
  return kinds.kind_of(annotation).read('x', value)


@pytest.mark.parametrize('name', NUMBERS)
def test_numbers(name):
  annotation = getattr(kinds, name)
  taken, refused = NUMBERS[name]
  for value in taken:
    assert read(annotation, value) is value
  right = kinds.kind_of(annotation).right
  for value in refused + (NO_NUMBERS if name != 'Count' else NO_NUMBERS[:6]):
    with pytest.raises(ValueError) as error:
      read(annotation, value)
    assert str(error.value) == f'x={value!r}: x must be {right}.'


def test_numbers_that_float32_cannot_hold():
  assert kinds.LARGEST == np.finfo(np.float32).max
  for annotation in (kinds.Positive, kinds.Number, kinds.AtLeastOne):
    assert read(annotation, kinds.LARGEST) == kinds.LARGEST
    right = kinds.kind_of(annotation).right
    message = f'^x=1e\\+39: x must be {right}, at most 3.4e\\+38'
    with pytest.raises(ValueError, match=message):
      read(annotation, 1e39)
  with pytest.raises(
    ValueError, match='^x=-1e.39: x must be a number, at most'
  ):
    read(kinds.Number, -1e39)


def test_counts_with_an_upper_bound():
  up_to_three = kinds.CountTo(3)
  assert [read(up_to_three, n) for n in (1, 2, 3)] == [1, 2, 3]
  for value in (0, 4, 2.0, True):
    with pytest.raises(ValueError, match='^x=.*: x must be a whole number'):
      read(up_to_three, value)


def test_flags_choices_and_functions():
  assert read(kinds.Flag, True) is True
  for value in (1, 0, 'true', None):
    with pytest.raises(ValueError, match='x must be true or false'):
      read(kinds.Flag, value)
  assert read(kinds.Choice('up', 'down'), 'up') == 'up'
  with pytest.raises(ValueError, match='x must be one of up, down'):
    read(kinds.Choice('up', 'down'), ['up'])
  assert read(kinds.Function, max) is max
  with pytest.raises(ValueError, match="x='max': x must be a Python function"):
    read(kinds.Function, 'max')


def test_lists():
  shares = kinds.ListOf(kinds.Share)
  assert read(shares, [0.5, 1]) == (0.5, 1)
  assert read(shares, ()) == ()
  with pytest.raises(ValueError, match=r'^x\[1\]=2: x\[1\] must be a number'):
    read(shares, [0.5, 2])
  for value in (0.5, 'ab', {0.5: 1}, None):
    with pytest.raises(ValueError, match='x must be a list'):
      read(shares, value)
  one = kinds.ListOf(kinds.Share, 'a list of one at least', least=1)
  with pytest.raises(ValueError, match=r'x=\[\]: x must be a list of one at'):
    read(one, [])


def test_rising_shares():
  assert read(kinds.Shares, [0.1, 0.5]) == (0.1, 0.5)
  assert read(kinds.Shares, ()) == ()
  for value in ([0.5, 0.5], [0.5, 0.1]):
    with pytest.raises(ValueError, match='x must be in rising order'):
      read(kinds.Shares, value)
  with pytest.raises(ValueError, match=r'x\[0\] must be a number above 0 and'):
    read(kinds.Shares, [0, 0.5])


def test_none_or_something():
  assert read(kinds.OrNone(kinds.Positive), None) is None
  assert read(kinds.OrNone(kinds.Positive), 2) == 2
  with pytest.raises(ValueError, match='^x=0: x must be a number above 0'):
    read(kinds.OrNone(kinds.Positive), 0)
  right = kinds.kind_of(kinds.OrNone(kinds.Positive)).right
  assert right == 'a number above 0, or None'


def test_an_annotation_without_a_kind():
  assert kinds.kind_of(float) is None
  assert kinds.kind_of(None) is None

"""Checks say what was meant."""

from __future__ import annotations

import pytest

from reset_cycles.settings import checks


@pytest.mark.parametrize(
  ('value', 'hint'),
  (
    ('cosin', ' Did you mean cosine?'),
    ('lin', ' Did you mean linear?'),
    ('step', ''),
    (['cosine'], ' Did you mean cosine?'),
    (3, ''),
  ),
)
def test_did_you_mean(value, hint):
  assert checks.did_you_mean(value, ('cosine', 'linear')) == hint


def test_unknown_fields_say_what_was_meant():
  checks.check_known({'alpha': 1}, {'alpha', 'k'})
  with pytest.raises(ValueError) as error:
    checks.check_known({'alhpa': 1}, {'alpha', 'k'})
  expected = 'Unknown field alhpa; known are alpha, k. Did you mean alpha?'
  assert str(error.value) == expected
  with pytest.raises(ValueError, match='Unknown field 3, x; known are k.$'):
    checks.check_known({'x': 1, 3: 2}, {'k'})


def test_unknown_choices_say_what_was_meant():
  checks.check_choice('x', 'up', ('up', 'down'))
  with pytest.raises(ValueError) as error:
    checks.check_choice('x', 'dwn', ('up', 'down'))
  expected = "x='dwn': x must be one of up, down. Did you mean down?"
  assert str(error.value) == expected

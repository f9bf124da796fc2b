"""What is wrong with a setting, and what would be right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.core import checks


def said(check, *args, **named):
  """The message, or '' where nothing is wrong."""
  try:
    check(*args, **named)
  except ValueError as error:
    return str(error)
  return ''


@pytest.mark.parametrize(
  ('value', 'interval', 'is_in'),
  (
    (0.0, '[0, 1]', True),
    (1.0, '[0, 1]', True),
    (0.0, '(0, 1]', False),
    (1.0, '[0, 1)', False),
    (-1e-12, '[0, 1]', False),
    (1 + 1e-12, '[0, 1]', False),
    (-5, '(-inf, inf)', True),
    (np.float32(0.5), '(0, 1)', True),
    (2, '[0, inf)', True),
    (math.inf, '[0, inf)', False),
    (math.nan, '(-inf, inf)', False),
    (10**400, '[0, inf)', False),
    (True, '[0, 1]', False),
    ('0.5', '[0, 1]', False),
    (None, '[0, 1]', False),
    (1j, '[0, 1]', False),
  ),
)
def test_numbers(value, interval, is_in):
  wrong = f'alpha={value!r}: alpha must be a number in {interval}.'
  found = said(checks.check_number, 'alpha', value, interval)
  assert found == ('' if is_in else wrong)


@pytest.mark.parametrize(
  ('value', 'least', 'is_right'),
  (
    (1, 1, True),
    (0, 1, False),
    (np.int32(3), 1, True),
    (2.0, 1, False),
    (True, 1, False),
    (0, 0, True),
    (1, 2, False),
  ),
)
def test_counts(value, least, is_right):
  wrong = f'k={value!r}: k must be a whole number of at least {least}.'
  found = said(checks.check_count, 'k', value, least=least)
  assert found == ('' if is_right else wrong)


@pytest.mark.parametrize('value', (True, False, 0, 1, 'yes', None))
def test_flags(value):
  wrong = f'wait={value!r}: wait must be True or False.'
  found = said(checks.check_flag, 'wait', value)
  assert found == ('' if value is True or value is False else wrong)


@pytest.mark.parametrize(
  ('value', 'hint'),
  (('logg', ' Did you mean log?'), ('quadratic', ''), (3, ''), (None, '')),
)
def test_choices(value, hint):
  choices = ('log', 'linear')
  assert said(checks.check_choice, 'scale', 'log', choices) == ''
  assert said(checks.check_choice, 'scale', value, choices) == (
    f'scale={value!r}: scale must be one of log, linear.{hint}'
  )

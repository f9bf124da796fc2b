"""What is wrong with a setting, and what would be right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.core import checks


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
  if is_in:
    checks.check_number('alpha', value, interval)
    return
  with pytest.raises(ValueError) as error:
    checks.check_number('alpha', value, interval)
  assert str(error.value) == (
    f'alpha={value!r}: alpha must be a number in {interval}.'
  )


@pytest.mark.parametrize(
  ('value', 'is_right'),
  ((1, True), (0, False), (np.int32(3), True), (2.0, False), (True, False)),
)
def test_counts(value, is_right):
  if is_right:
    checks.check_count('k', value)
    return
  with pytest.raises(ValueError, match='^k=.*: k must be a whole number of at'):
    checks.check_count('k', value)


def test_counts_from_another_number_on():
  checks.check_count('k', 0, least=0)
  with pytest.raises(ValueError, match='k=1: .* of at least 2'):
    checks.check_count('k', 1, least=2)


@pytest.mark.parametrize('value', (0, 1, 'yes', None))
def test_flags(value):
  checks.check_flag('wait', True)
  checks.check_flag('wait', False)
  with pytest.raises(ValueError, match='^wait=.*: wait must be True or False'):
    checks.check_flag('wait', value)


@pytest.mark.parametrize(
  ('value', 'hint'),
  (('logg', ' Did you mean log?'), ('quadratic', ''), (3, ''), (None, '')),
)
def test_choices(value, hint):
  checks.check_choice('scale', 'log', ('log', 'linear'))
  with pytest.raises(ValueError) as error:
    checks.check_choice('scale', value, ('log', 'linear'))
  assert str(error.value) == (
    f'scale={value!r}: scale must be one of log, linear.{hint}'
  )

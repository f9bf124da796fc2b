"""What is wrong with a setting, and what would be right."""

import math

import numpy as np
import pytest

from reset_cycles.core import checks
from reset_cycles.parts import choices


def said(check, *args):
  """The message, or '' where nothing is wrong."""
  try:
    check(*args)
  except ValueError as error:
    return str(error)
  return ''


NUMBER, COUNT = 'a number in {}', 'a whole number of at least {}'
FLAG, CHOICE = 'True or False', 'one of {}'


@pytest.mark.parametrize(
  ('right', 'argument', 'good', 'bad'),
  (
    (NUMBER, '[0, 1]', (0.0, 1.0), (-1e-12, 1 + 1e-12, True, '.5', None, 1j)),
    (NUMBER, '(0, 1]', (1.0,), (0.0,)),
    (NUMBER, '[0, 1)', (0, np.float32(0.5)), (1.0,)),
    (NUMBER, '(-inf, inf)', (-5,), (math.nan,)),
    (NUMBER, '[0, inf)', (2,), (math.inf, 10**400)),
    (COUNT, 1, (1, np.int32(3)), (0, 2.0, True)),
    (COUNT, 0, (0,), (-1,)),
    (COUNT, 2, (2,), (1,)),
    (FLAG, None, (True, False), (0, 1, 'yes', None)),
    (CHOICE, ('log', 'linear'), ('log', 'linear'), ('quadratic', 3, None)),
  ),
  ids=repr,
)
def test_what_is_right_and_what_is_said_of_the_rest(right, argument, good, bad):
  check = {
    NUMBER: checks.check_number,
    COUNT: checks.check_count,
    FLAG: lambda name, value, _: checks.check_flag(name, value),
    CHOICE: choices.check_choice,
  }[right]
  shown = ', '.join(argument) if right == CHOICE else argument
  for value in good:
    assert said(check, 'it', value, argument) == ''
  for value in bad:
    expected = f'it={value!r}: must be {right.format(shown)}.'
    assert said(check, 'it', value, argument) == expected


def test_a_choice_that_is_close_is_named():
  found = said(choices.check_choice, 'scale', 'logg', ('log', 'linear'))
  assert found.endswith('must be one of log, linear. Did you mean log?')

"""Shapes that are Python functions: their values, and what is said of faults."""

from __future__ import annotations

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest

from curves import assert_close, read
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase


def shape(steps, name, function):
  setting = DECAYS.read('shape', {'name': name, 'function': function})
  return DECAYS.make(setting, Phase(steps))


def test_factors_by_hand():
  schedule = shape(3, 'multiplicative', lambda t: t / 4)
  values = {0: 1.0, 0.9: 1.0, 1: 0.25, 2: 0.125, 3: 0.09375, 9: 0.09375}
  counts = np.asarray(list(values), np.float32)
  assert_close(read(schedule, counts), list(values.values()), 1.0)


@pytest.mark.parametrize(
  ('function', 'values'),
  (
    (lambda u: u * u, [0, 0.25, 1, 1]),
    (jnp.sqrt, [0, 0.5**0.5, 1, 1]),
    (lambda u: 0.5, [0.5] * 4),
    (lambda u: 1, [1] * 4),
    (lambda u: u >= 0.5, [0, 1, 1, 1]),
    (lambda u: np.float64(0.25) * u, [0, 0.125, 0.25, 0.25]),
  ),
)
def test_functions_of_the_share(function, values):
  schedule = shape(10, 'lambda', function)
  assert_close(read(schedule, np.asarray([0, 5, 10, 11])), values, 1.0)


def raises(share):
  raise KeyError('no such thing\nand a second line')


def looks(share):
  return 1.0 if share < 0.5 else 0.1


BAD = (
  (raises, "raised KeyError: 'no such thing"),
  (looks, r'raised \w+Error: '),
  (math.cos, r'raised \w+Error: '),
  (lambda: 1.0, 'raised TypeError: '),
  (lambda u: None, 'raised '),
  (lambda u: 'high', 'raised '),
  (lambda u: jnp.stack([u, u]), r'gave float32\[2\]'),
  (lambda u: 1j * u, r'gave complex64\[\]'),
  (lambda u: u / 0 / [], 'raised TypeError'),
)


@pytest.mark.parametrize(('function', 'why'), BAD)
def test_functions_that_jax_cannot_trace(function, why):
  name = function.__name__
  with pytest.raises(ValueError) as error:
    shape(10, 'lambda', function)
  message = str(error.value)
  right = (
    f'lambda: function={name}: function must be a function that JAX can trace, '
    'from the share of the phase to one number; it '
  )
  assert message.startswith(right)
  assert '\n' not in message
  assert re.match(why, message[len(right) :])


def third(step):
  return 1 / (3 - step)


@pytest.mark.parametrize(
  ('function', 'why'),
  (
    (third, 'it raised ZeroDivisionError: .* at step 3'),
    (raises, "it raised KeyError: 'no such thing.* at step 1"),
    (lambda t: None, 'it raised TypeError: .* at step 1'),
    (lambda t: 1j, 'it raised TypeError: .* at step 1'),
    (lambda t: 'high', 'it raised ValueError: .* at step 1'),
    (lambda: 1.0, 'it raised TypeError: .* at step 1'),
    (lambda t: 2.0, 'the product of its values is inf at step 128'),
    (lambda t: math.nan, 'the product of its values is nan at step 1'),
    (float, 'the product of its values is inf at step 35'),
  ),
)
@pytest.mark.filterwarnings('error')
def test_functions_that_are_no_factors(function, why):
  right = 'function must be a function from a step .* to one number, its fac'
  name = function.__name__
  with pytest.raises(
    ValueError, match=f'^multiplicative: function={name}: {right}.*; {why}.$'
  ) as error:
    shape(200, 'multiplicative', function)
  assert '\n' not in str(error.value)


def test_a_function_within_a_chain_is_checked_as_well():
  chain = {
    'name': 'chained',
    'shapes': ['cosine', {'name': 'lambda', 'function': looks}],
  }
  with pytest.raises(ValueError, match='^lambda: function=looks: '):
    DECAYS.make(DECAYS.read('x', chain), Phase(10))

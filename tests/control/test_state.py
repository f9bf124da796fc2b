"""The saved state: every number of a control, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay import make_params, rules_of
from reset_cycles.control import decide
from reset_cycles.control.state import from_words, to_words

START = decide.start(rules_of(make_params(), 6))
# No float32 holds these.
NUMBERS = (0.1, 1 + 2.0**-52, 1e300, 5e-324, -0.0, math.inf, -math.inf)


def test_words_are_two_of_int32_per_number():
  words = to_words(START)
  assert words.dtype == np.int32
  # 18 numbers of the run and 5 of the smoothed loss.
  assert words.shape == (2 * 23,)


@pytest.mark.parametrize('number', NUMBERS)
def test_numbers_come_back_to_the_last_bit(number):
  control = START._replace(last_loss=number, first_metric=-number)
  back = from_words(to_words(control), START)
  assert repr(back) == repr(control)
  assert math.copysign(1, back.last_loss) == math.copysign(1, number)


def test_nan_stays_nan_and_whole_numbers_whole():
  control = START._replace(cycle_end=2**31 - 1, num_early_stops=7)
  back = from_words(to_words(control), START)
  assert repr(back) == repr(control)
  assert type(back.cycle_end) is int
  assert math.isnan(back.last_metric)


def test_words_of_other_rules_are_refused():
  with pytest.raises(ValueError, match='has 22 numbers, but .* needs 23'):
    from_words(to_words(START)[2:], START)

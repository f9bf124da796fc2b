"""The control's numbers as words, and back, bit for bit."""

import math

import pytest

from helpers.replay import config_of, make_params
from reset_cycles.core.evaluation import Evaluation
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.early_switching import (
  AnyOf,
  ChainLossRule,
  Progress,
  SmoothedLossRule,
)
from reset_cycles.engine import control as control_lib
from reset_cycles.engine.state import from_words, to_words
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon

JOINED = AnyOf((ChainLossRule(), Progress()))


def controls(count=40, **changes):
  """The control before and after each evaluation."""
  params = make_params(horizon=TimeHorizon(), **changes)
  config = config_of(params, 1000, budget=100.0)
  control = control_lib.start(config)
  found = [control]
  for i in range(count):
    loss = math.nan if i == 30 else 1 / 3 - i * 1e-12
    evaluation = Evaluation(1 + 7 * i, loss, 0.1 + i * 1e-12, 6 + i / 3)
    control, *_ = control_lib.observe(control, evaluation, config)
    found.append(control)
  # Whole numbers are exact up to 2^53.
  return [*found, control._replace(planned_end=2**53 - 1)]


@pytest.mark.parametrize(
  'rule', (SmoothedLossRule(), Progress(), JOINED), ids=repr
)
def test_every_bit_comes_back(rule):
  found = controls(switching=rule, repeat=True)
  words = [to_words(control) for control in found]
  assert {(w.shape, str(w.dtype)) for w in words} == {(words[0].shape, 'int32')}
  for control, word in zip(found, words):
    # It tells 1 from 1.0 and from True, and a float from the next.
    assert repr(from_words(word, found[0])) == repr(control)


def test_words_of_a_run_with_other_settings_are_refused():
  one, *_ = controls(0, switching=SmoothedLossRule())
  other, *_ = controls(0, switching=Progress())
  with pytest.raises(ValueError, match='saved by a run with other settings'):
    from_words(to_words(one), other)


def test_words_of_a_run_with_another_average_are_refused():
  """As a submission's checkpoint, restored under other settings."""
  start_with = lambda share: controls(0, optimizer=ScheduleFreeMuon(share))[0]
  quarter, half = start_with(0.25), start_with(0.5)
  assert quarter.fingerprint.one_minus_beta1 == 0.25
  restored = from_words(to_words(quarter), quarter)
  assert repr(restored) == repr(quarter)
  said = 'one_minus_beta1 of the saved run=0.25: must be 0.5, as in this run'
  with pytest.raises(ValueError, match=said):
    from_words(to_words(quarter), half)
  # AdamW has a first moment of that name, and no average.
  adamw, *_ = controls(0, optimizer=AdamW(one_minus_beta1=0.25))
  assert adamw.fingerprint.one_minus_beta1 == 1.0

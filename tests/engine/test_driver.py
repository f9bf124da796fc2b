"""`driver.Driver`: what is done with a decision, and in which order."""

import math

import numpy as np

from helpers.replay import PEAK, config_of, make_params
from reset_cycles.core.clock import unpacked
from reset_cycles.core.evaluation import Evaluation
from reset_cycles.engine import control as control_lib
from reset_cycles.engine.driver import Driver, saved_state, standing
from reset_cycles.engine.model_reset import Effect, Model
from reset_cycles.engine.state import from_words
from reset_cycles.soft_reset import FULL, Cyclic, SoftReset

TRAINED = Model('trained', 'statistics', 'state')
# Three cycles of 4 steps.
PLAN = {'n': 3, 'budget_factor': 1.0, 'repeat': False}
EFFECT = {
  'param_change': 0.5,
  'moment_norm_before': 4.0,
  'moment_norm_after': 3.0,
}


class Host:
  """Devices that note what is put on them, and give it back."""

  def __init__(self):
    self.puts = []

  def put(self, words):
    self.puts.append(words)
    return words

  def get(self, words):
    return words


class Reset:
  """Of a model that is a word here; notes what is asked of it."""

  def __init__(self, is_sound=True):
    self.is_sound, self.tape, self.devices = is_sound, [], Host()

  def is_finite(self, model):
    self.tape.append(('look', model))
    return self.is_sound

  def __call__(self, model, fresh, plan):
    self.tape.append(('blend', model, fresh, plan))
    return Model('blended', None, 'state'), Effect(**EFFECT)


def outcome_at(step, evaluations=(), is_sound=True, **changes):
  """Of the first cycle of `PLAN`; and what the reset was asked."""
  config = config_of(make_params(**{**PLAN, **changes}), 12)
  model_reset, control = Reset(is_sound), control_lib.start(config)

  def fresh(cycle):
    model_reset.tape.append(('make', cycle))
    return f'model {cycle}'

  driver = Driver(config, model_reset, fresh)
  outcome = driver.advance(TRAINED, control, evaluations, step)
  return outcome, model_reset.tape


def kinds(outcome):
  return [event['event'] for event in outcome.events]


def test_inside_a_cycle_nobody_looks_at_the_model():
  outcome, tape = outcome_at(3, [Evaluation(2, 1.0, 0.75)])
  assert outcome.params == 'trained' and not tape
  assert (kinds(outcome), outcome.due) == (['evaluation'], 4)
  assert outcome.control.last.step == 2 and not outcome.run_is_over


def test_a_further_cycle_starts_with_a_blend():
  """A quarter of the way is missing: tau .25, moments keep 1 - .5 * .25."""
  seen = [Evaluation(4, 1.0, 0.75)]
  outcome, tape = outcome_at(4, seen, reset=SoftReset(alpha=0.5))
  plan = (0.25, 0.875, True)
  assert tape == [
    ('look', TRAINED),
    ('make', 2),
    ('blend', TRAINED, 'model 2', plan),
  ]
  assert outcome.params == 'blended'
  assert (outcome.control.cycle, outcome.due) == (2, 8)
  evaluation, reset, start = outcome.events
  assert kinds(outcome) == ['evaluation', 'reset', 'cycle_start']
  assert {name: reset[name] for name in EFFECT} == EFFECT
  assert not EFFECT.keys() & {*evaluation, *start}


def test_a_model_that_is_not_finite_is_replaced_whatever_the_reset():
  seen = [Evaluation(4, 1.0, 0.75)]
  outcome, tape = outcome_at(4, seen, is_sound=False, reset=Cyclic())
  assert tape[1:] == [('make', 2), ('blend', TRAINED, 'model 2', FULL)]
  assert outcome.params == 'blended'


def test_no_fresh_model_is_made_for_a_reset_that_touches_nothing():
  outcome, tape = outcome_at(4, [Evaluation(4, 1.0, 0.75)], reset=Cyclic())
  assert tape == [('look', TRAINED)] and outcome.params == 'trained'
  assert kinds(outcome) == ['evaluation', 'reset', 'cycle_start']
  assert not EFFECT.keys() & outcome.events[1].keys()


def test_a_run_whose_cycles_have_run_out_keeps_its_model():
  seen = [Evaluation(2, math.nan, 0.75)]
  outcome, tape = outcome_at(2, seen, n=1, early_switching=True)
  assert kinds(outcome) == ['evaluation', 'abandon', 'finish']
  assert outcome.run_is_over and outcome.params == 'trained' and not tape


def test_what_is_saved_is_the_state_with_clock_and_control():
  """Each by itself: under pmap one program puts one array."""
  config, devices = config_of(make_params(**PLAN), 12), Host()
  control = control_lib.start(config)
  saved = saved_state('inner', control, 3, config, devices)
  assert saved.inner == 'inner'
  clock = unpacked(saved.clock)
  assert (clock.count, clock.anchor_step, clock.steps) == (3, 0, 4)
  assert clock.peak == np.float32(PEAK)
  assert repr(from_words(saved.control, control)) == repr(control)
  assert repr(standing(saved, control, devices)) == repr((control, 3))
  assert [put.dtype for put in devices.puts] == [np.int32] * 2

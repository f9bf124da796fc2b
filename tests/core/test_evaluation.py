"""Which weights an evaluation sees, and v0.5.0's evaluations foreseen."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from helpers import fake_benchmark
from helpers.runs import (
  GENERATIONS,
  PARAMS,
  assert_equal_trees,
  column,
  devices_of,
  new_driver,
  trained_params,
)
from reset_cycles.core import evaluation
from reset_cycles.core.evaluation import Forecast
from reset_cycles.core.optimizers import ScheduleFreeAdamW

FREE = dataclasses.replace(
  PARAMS, optimizer=ScheduleFreeAdamW(), early_switching=False
)
BOTH = pytest.mark.parametrize('generation', GENERATIONS)


class Clock:
  """Seconds that pass only when a test lets them."""

  now = 1000.0

  def time(self):
    return self.now


@pytest.fixture
def clock(monkeypatch):
  clock = Clock()
  monkeypatch.setattr(evaluation, 'time', clock)
  return clock


@BOTH
def test_evaluations_see_x_and_training_goes_on_with_y(generation, folder):
  """The run is that without evaluations; b1 x = y - (1 - b1) z."""
  every = {step: (1.0, 0.9) for step in range(1, 13)}  # tau is 0
  driver, alone = (new_driver(FREE, generation, seen) for seen in (every, {}))
  driver.workload.eval_period_time_sec = 0.0
  driver.evaluated, b1 = {}, 1 - FREE.cycles[0].hparams.one_minus_beta1
  for step in range(1, 13):
    driver.run(until=step)
    alone.run(until=step)
    y = trained_params(driver)
    assert_equal_trees(y, trained_params(alone))
    z = devices_of(driver).get(driver.optimizer_state[0].inner.state.z)
    for name, leaf in driver.evaluated[step].items():
      x = (y[name] - (1 - b1) * z[name]) / b1
      np.testing.assert_allclose(leaf, x, rtol=1e-5, atol=1e-6)
  assert not np.array_equal(driver.evaluated[10]['bias'], y['bias'])
  assert set(column(folder, 'weights', event='evaluation')) == {'averaged'}


def test_the_weights_are_handed_out_once():
  """A run that has ended itself is evaluated once more, by main's runner."""
  driver = new_driver(FREE, 'jit', {})
  assert driver.run()
  driver.evaluated = {}
  driver.prepare()
  first, state = driver.evaluated[12], driver.optimizer_state
  driver.prepare()
  assert_equal_trees(driver.evaluated[12], first)
  assert driver.optimizer_state[0] is state[0]
  assert not np.array_equal(first['bias'], trained_params(driver)['bias'])


class Timed(fake_benchmark.Driver):
  """v0.5.0's clock: a step takes a second, an evaluation 10, a checkpoint 5.

  `every` is the number of steps between evaluations, if not the period.
  """

  every = None
  last = spent = 0.0

  def step(self):
    self.clock.now += 1.0
    super().step()

  def evaluate(self):
    if self.optimizer_state[1].is_out:
      self.out.append(self.global_step)
    is_due = self.clock.now - self.last >= self.workload.eval_period_time_sec
    if self.every:
      is_due = self.global_step == 1 or self.global_step % self.every == 0
    if is_due:
      self.evaluations[self.global_step] = (1.0, 0.9)
      super().evaluate()
      self.clock.now += 10.0
      self.last, self.spent = self.clock.now, self.spent + 10.0
      self.eval_results[-1][1]['accumulated_eval_time'] = self.spent
      self.clock.now += 5.0


def timed(clock, period, every=None):
  driver = new_driver(FREE, 'pmap', {})
  driver.__class__ = Timed
  driver.clock, driver.out, driver.every = clock, [], every
  driver.workload.eval_period_time_sec = period
  driver.evaluated = {}
  return driver


def test_evaluations_are_foreseen_by_the_clock(clock):
  """From the end of an evaluation, its checkpoint's 5 s included, 8 s."""
  driver = timed(clock, period=8.0)
  driver.run(until=11)
  assert sorted(driver.evaluated) == [1, 4, 7, 10]
  # A second's notice is taken, and cycles end at 4, 8 and 12.
  assert driver.out == [1, 3, 4, 6, 7, 8, 9, 10]


def test_evaluations_are_foreseen_by_their_steps(clock):
  driver = timed(clock, period=1e9, every=5)
  driver.run(until=12)
  assert sorted(driver.evaluated) == [1, 5, 10]
  # After 1 and 5, 4 steps later; cycles end at 4, 8 and 12.
  assert driver.out[:3] == [1, 4, 8]


@pytest.mark.parametrize(
  ('since', 'step_seconds', 'gap', 'steps', 'is_due'),
  (
    (7.9, 0.0, 0, 3, False),
    (8.0, 0.0, 0, 3, True),
    (7.0, 1.0, 0, 3, True),
    (6.9, 1.0, 0, 3, False),
    (0.0, 0.0, 3, 3, True),
    (0.0, 0.0, 3, 4, False),
    (0.0, 0.0, 0, 0, False),
    (math.inf, 0.0, 0, 0, True),
  ),
)
def test_when_an_evaluation_is_due(
  clock, since, step_seconds, gap, steps, is_due
):
  forecast = Forecast(
    evaluated=clock.now - since,
    step_seconds=step_seconds,
    eval_step=10,
    gap=gap,
  )
  assert forecast.is_due(10 + steps, 8.0) is is_due


def test_a_forecast_after_evaluations_and_steps(clock):
  forecast = Forecast(returned=980.0).after_evaluation(5, 12.0)
  assert (forecast.evaluated, forecast.gap) == (992.0, 0)
  # An end that is in the future, or unknown, is now.
  assert Forecast(returned=980.0).after_evaluation(5, 30.0).evaluated == 1000.0
  assert Forecast().after_evaluation(5, math.nan).evaluated == 1000.0
  clock.now = 1003.0
  forecast = forecast.after_step()
  assert (forecast.returned, forecast.step_seconds) == (1003.0, 11.0)
  forecast = forecast.after_evaluation(9, 13.0)
  assert (forecast.evaluated, forecast.gap) == (1003.0, 4)

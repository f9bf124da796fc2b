"""What is evaluated and what is trained, in whole runs of both generations."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import reference
import tiny
from made_up_parts import AveragedDescent, registered
from reset_cycles import submission
from reset_cycles.optimizers import INNER
from reset_cycles.training import forecast as forecast_lib
from reset_cycles.training import run as run_lib
from runs import GENERATIONS, PARAMS, assert_equal_trees, column

LAWA = {'name': 'lawa', 'k': 3, 'distance': 0.1}
EMA = {'name': 'ema', 'span': 0.2, 'distance': 0.1}
# Two cycles of 15 steps, with a soft reset between. The target is 0.8.
TWO = dataclasses.replace(
  PARAMS,
  warmups=('linear', 'linear'),
  decays=('cosine', 'cosine'),
  alter_lr=(0.0, 0.0),
  alter_warmup=(0.0, 0.0),
  lengths=(1.0, 1.0),
  budget_factor=1.0,
  early_switching=False,
)
STEP_HINT = 30
CYCLES = ((0, 15), (15, 30))
EVERY_STEP = {step: (1.0, 0.4) for step in range(1, 31)}


class Clock:
  """Seconds that pass only when a test lets them."""

  def __init__(self):
    self.now = 1000.0

  def __call__(self):
    return self.now


@pytest.fixture
def clock(monkeypatch):
  clock = Clock()
  monkeypatch.setattr(forecast_lib, 'now', clock)
  return clock


def new_driver(generation, averaging, evaluations=EVERY_STEP, **changes):
  params = dataclasses.replace(TWO, averaging=averaging, **changes)
  workload = tiny.WORKLOADS[generation](STEP_HINT)
  workload.eval_period_time_sec = 0.0  # v0.5.0 evaluates every step then
  driver = tiny.Driver(
    submission.make_submission(params), workload, evaluations
  )
  driver.evaluated = {}
  return driver


def trained(driver):
  """The trained weights as of now, on the host."""
  saved, run = driver.optimizer_state
  devices = run.setup.devices
  params = saved.averaging.slot if run.averaged.out else driver.params
  return devices.get(params)


def evaluated_and_trained(driver, until=30):
  """Two dicts: after so many steps -> the weights, on the host."""
  after = {}
  for step in range(1, until + 1):
    driver.run(until=step)
    after[step] = trained(driver)
  return driver.evaluated, after


@pytest.fixture(scope='module')
def raw():
  """The weights after each step of runs that average nothing."""
  found = {}
  for generation in GENERATIONS:
    driver = new_driver(generation, 'none')
    driver.run(until=30)
    found[generation] = driver.evaluated
  return found


def expected(averaging, raw, leaf):
  """What each evaluation sees of a leaf, by the slow twin."""
  found = {}
  for start, end in CYCLES:
    for step in range(start + 1, end + 1):
      taken = reference.snapshots(start, step, every=3, first=3)
      history = {s: raw[s][leaf] for s in taken}
      if averaging is LAWA:
        mean = reference.last_mean(history, taken, 3)
      else:
        enough = len(taken) >= 2
        keep = math.exp(-3 / 6)
        mean = reference.exponential_mean(history, taken, keep)
        mean = mean if enough else None
      found[step] = raw[step][leaf] if mean is None else mean
  return found


@pytest.mark.parametrize('averaging', [LAWA, EMA], ids=['lawa', 'ema'])
@pytest.mark.parametrize('generation', GENERATIONS)
def test_whole_runs(generation, averaging, raw):
  """Evaluated is the average, once there are enough; trained what would be."""
  driver = new_driver(generation, averaging)
  evaluated, after = evaluated_and_trained(driver)
  for leaf in ('kernel', 'bias'):
    wanted = expected(averaging, raw[generation], leaf)
    assert sorted(evaluated) == sorted(wanted) == list(range(1, 31))
    differs = []
    for step in range(1, 31):
      assert_equal_trees(after[step][leaf], raw[generation][step][leaf])
      np.testing.assert_allclose(
        evaluated[step][leaf], wanted[step], rtol=1e-5, atol=1e-7
      )
      if not np.array_equal(evaluated[step][leaf], after[step][leaf]):
        differs.append(step)
    first = 10 if averaging is LAWA else 7
    assert differs == [*range(first, 16), *range(15 + first, 31)]


def test_whole_runs_on_one_device():
  flags = {'XLA_FLAGS': '--xla_force_host_platform_device_count=1'}
  # One of each generation and each average.
  cases = [
    f'{__file__}::test_whole_runs[{c}]' for c in ('jit-ema', 'pmap-lawa')
  ]
  subprocess.run(
    [sys.executable, '-m', 'pytest', '-q', *cases],
    env={**os.environ, **flags},
    check=True,
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_evaluations_have_seen_is_written_down(generation, folder):
  driver = new_driver(generation, LAWA)
  driver.run(until=30)
  seen = column(folder, 'weights', event='evaluation')
  whole = ['raw'] * 9 + ['averaged'] * 6 + ['raw'] * 9 + ['averaged'] * 5
  assert seen == whole  # of the last step's nobody is told
  _, run = driver.optimizer_state
  run_lib.record_last_evaluations(run, driver.eval_results, 30)
  seen = column(folder, 'weights', event='evaluation')
  assert seen == [*whole, 'averaged']


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_is_written_down_where_nothing_is_averaged(generation, folder):
  new_driver(generation, 'none').run(until=3)
  assert 'weights' not in (folder / 'cycles.csv').read_text()


@pytest.mark.parametrize('generation', GENERATIONS)
def test_in_turn_until_one_is_better(generation, folder):
  """The metric rises by .01 per step; the average is .005 ahead."""
  driver = new_driver(generation, {**LAWA, 'choice': 'alternate'})
  for step in range(1, 16):
    driver.run(until=step)
    is_average = driver.optimizer_state[1].averaged.out != 0
    driver.eval_results[-1][1]['validation/accuracy'] = (
      0.3 + 0.01 * step + 0.005 * is_average
    )
  driver.run(until=16)
  seen = column(folder, 'weights', event='evaluation')
  names = {'r': 'raw', 'a': 'averaged'}
  # There is an average from step 10 on; 9, 10 and 11 decide.
  assert seen == [names[c] for c in 'rrrrrrrrr' + 'araaaa']


@pytest.mark.parametrize('generation', GENERATIONS)
def test_tau_is_that_of_what_was_evaluated(generation, folder, raw):
  evaluations = {**EVERY_STEP, 15: (1.0, 0.6)}
  driver = new_driver(generation, LAWA, evaluations)
  evaluated, _ = evaluated_and_trained(driver, until=16)
  assert column(folder, 'tau', event='reset') == [str(1 - 0.6 / 0.8)]
  assert not np.array_equal(evaluated[15]['bias'], raw[generation][15]['bias'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_weights_are_handed_out_once(generation):
  """A run that has ended itself is evaluated once more, by main's runner."""
  driver = new_driver(generation, LAWA, {}, policy='finish')
  assert driver.run()
  assert driver.global_step == 30
  driver.prepare()
  first = driver.evaluated[30]
  state = driver.optimizer_state
  driver.prepare()
  np.testing.assert_array_equal(driver.evaluated[30]['bias'], first['bias'])
  assert driver.optimizer_state[0] is state[0] or generation == 'jit'
  assert not np.array_equal(first['bias'], trained(driver)['bias'])


# What the optimizer itself wants to be evaluated.


def averaged_descent(generation, averaging='none', **changes):
  with registered(INNER, averaged_descent=AveragedDescent):
    return new_driver(
      generation, averaging, optimizer='averaged_descent', **changes
    )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_optimizer_with_an_average_of_its_own(generation):
  driver = averaged_descent(generation)
  evaluated, after = evaluated_and_trained(driver)
  own = np.zeros(tiny.NUM_OUTPUTS)  # of the first bias
  for step in range(1, 16):
    own = 0.5 * own + 0.5 * after[step]['bias']
    np.testing.assert_allclose(
      evaluated[step]['bias'], own, rtol=1e-5, atol=1e-7
    )
  assert not np.array_equal(evaluated[15]['bias'], after[15]['bias'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_average_of_an_optimizers_own_average(generation):
  own, _ = evaluated_and_trained(averaged_descent(generation))
  both, after = evaluated_and_trained(averaged_descent(generation, LAWA))
  for step in (12, 15, 27, 30):
    taken = [s for s in range(3, step, 3) if s != 15]
    mean = reference.last_mean({s: own[s]['bias'] for s in taken}, taken, 3)
    np.testing.assert_allclose(both[step]['bias'], mean, rtol=1e-5, atol=1e-7)
  for step in (5, 20):
    np.testing.assert_allclose(
      both[step]['bias'], own[step]['bias'], rtol=1e-5, atol=1e-7
    )
    assert not np.array_equal(both[step]['bias'], after[step]['bias'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_each_cycle_has_its_own(generation):
  """Schedule-Free, whose x is evaluated, then AdamW with the last three."""
  free = {'optimizer': 'schedule_free_adamw', 'averaging': 'none'}
  plain = {'optimizer': 'adamw', 'averaging': LAWA}
  lists = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
  nothing = dict.fromkeys(lists, ())
  driver = new_driver(generation, 'none', cycles=(free, plain), **nothing)
  after, x = {}, {}
  for step in range(1, 31):
    driver.run(until=step)
    after[step] = trained(driver)
    saved, run = driver.optimizer_state
    if step <= 15:
      pool = run.setup.devices.get(saved.inner.inner)
      x[step] = run.setup.inners[0].eval_params(pool, after[step])
  evaluated = driver.evaluated
  for step in range(1, 16):
    np.testing.assert_allclose(
      evaluated[step]['bias'], x[step]['bias'], rtol=1e-4, atol=1e-6
    )
  assert not np.allclose(evaluated[15]['bias'], after[15]['bias'], rtol=1e-3)
  for step in range(16, 25):
    np.testing.assert_array_equal(evaluated[step]['bias'], after[step]['bias'])
  mean = reference.last_mean(
    {s: after[s]['bias'] for s in (21, 24, 27)}, [21, 24, 27], 3
  )
  np.testing.assert_allclose(evaluated[30]['bias'], mean, rtol=1e-5, atol=1e-7)


def test_no_running_average_of_an_optimizers_own_average():
  with pytest.raises(
    ValueError, match='averaging=.* averaged_descent has an average of its own'
  ):
    averaged_descent('jit', EMA)


# What it costs.


@pytest.mark.parametrize('averaging', [LAWA, EMA], ids=['lawa', 'ema'])
@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_after_the_first_step(
  generation, averaging, compilations
):
  driver = new_driver(generation, averaging)
  driver.evaluated = None
  driver.step()
  with compilations() as compiled:
    driver.run(until=30)
  assert compiled == []


@pytest.mark.parametrize('generation', GENERATIONS)
def test_nothing_compiles_with_an_average_of_its_own(generation, compilations):
  driver = averaged_descent(generation, LAWA)
  driver.evaluated = None
  driver.step()
  with compilations() as compiled:
    driver.run(until=30)
  assert compiled == []


@pytest.mark.parametrize('averaging', [LAWA, EMA], ids=['lawa', 'ema'])
@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_is_read_from_the_devices(generation, averaging, reads):
  """Snapshots before steps 3, 6, 9 and 12; each is read with the next one."""
  driver = new_driver(generation, averaging, {1: (1.0, 0.4)})
  driver.evaluated = None
  driver.workload.eval_period_time_sec = 1e9
  seen = []
  for step in range(1, 15):
    del reads[:]
    driver.run(until=step)
    if step > 2:  # the first takes over the state, the next the evaluation
      seen.append(len(reads))
  leaves = 2 if averaging is LAWA else 0
  #                 steps 2  3  4  5  6
  assert seen[:5] == [0, 0, 0, 0, leaves]
  assert seen[5:] == [0, 0, leaves, 0, 0, leaves, 0]


@pytest.fixture
def reads(monkeypatch):
  """A list that grows with every array whose value the host asks for."""
  from jax._src.array import ArrayImpl

  value = ArrayImpl._value
  found = []

  def counted(self):
    found.append(self.shape)
    return value.fget(self)

  monkeypatch.setattr(ArrayImpl, '_value', property(counted))
  return found


# v0.5.0 says nothing beforehand.


class Timed(tiny.Driver):
  """v0.5.0's clock: a step takes a second, an evaluation 10, a checkpoint 5.

  Args:
    period: seconds between evaluations.
    every: steps between them, instead.
  """

  def set_up(self, clock, period, every=None):
    self.clock, self.every = clock, every
    self.workload.eval_period_time_sec = period
    self.last, self.spent, self.out = 0.0, 0.0, []
    self.evaluations = {}
    return self

  def step(self):
    self.clock.now += 1.0
    super().step()

  def evaluate(self):
    if self.optimizer_state[1].averaged.out:
      self.out.append(self.global_step)
    is_due = self.clock.now - self.last >= self.workload.eval_period_time_sec
    if self.every:
      is_due = self.global_step == 1 or self.global_step % self.every == 0
    if is_due:
      self.evaluations[self.global_step] = (1.0, 0.4)
      super().evaluate()
      self.clock.now += 10.0
      self.last, self.spent = self.clock.now, self.spent + 10.0
      results = self.eval_results[-1][1]
      results['accumulated_eval_time'] = self.spent
      self.clock.now += 5.0


def timed(clock, averaging, period, every=None):
  params = dataclasses.replace(TWO, averaging=averaging)
  workload = tiny.PmapTinyWorkload(STEP_HINT)
  driver = Timed(submission.make_submission(params), workload, {})
  driver.evaluated = {}
  return driver.set_up(clock, period, every)


ALWAYS = {'name': 'lawa', 'k': 1, 'distance': 0.01}


def test_evaluations_are_foreseen_by_the_clock(clock, raw):
  """From the end of an evaluation, its checkpoint's 5 s included, 8 s."""
  driver = timed(clock, ALWAYS, period=8.0)
  after = evaluated_and_trained(driver, until=15)[1]
  assert sorted(driver.evaluated) == [1, 4, 7, 10, 13]
  # There is no snapshot yet at the first, and a second's notice is taken. The
  # cycle ends at 15.
  assert driver.out == [3, 4, 6, 7, 9, 10, 12, 13, 15]
  for step in range(1, 16):
    assert_equal_trees(after[step]['bias'], raw['pmap'][step]['bias'])
  for step in (4, 7, 10, 13):
    assert_equal_trees(
      driver.evaluated[step]['bias'], raw['pmap'][step - 1]['bias']
    )


def test_evaluations_are_foreseen_by_their_steps(clock):
  driver = timed(clock, ALWAYS, period=1e9, every=5)
  driver.run(until=30)
  assert sorted(driver.evaluated) == [1, 5, 10, 15, 20, 25, 30]
  # 4 steps lay between the first two, then 5. At 15 and 30 a cycle ends.
  assert driver.out == [9, 15, 20, 25, 30]


def test_a_wrong_forecast_changes_nothing_of_training(clock, raw):
  driver = timed(clock, LAWA, period=1e9)
  driver.last = math.inf  # never
  _, after = evaluated_and_trained(driver)
  assert driver.evaluated == {}
  assert driver.out == [*range(10, 16), *range(25, 31)]
  # Without evaluations there is no tau: nothing is reset.
  for step in range(1, 16):
    assert_equal_trees(after[step]['bias'], raw['pmap'][step]['bias'])

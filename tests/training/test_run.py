"""What happens between the train steps of a run."""

from __future__ import annotations

import dataclasses
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tiny
from reset_cycles import submission
from reset_cycles.control import decide as cycle_control
from reset_cycles.optimizers import adamw as optimizer
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules import cycle_clock, lr_schedule
from reset_cycles.training.events import read_events
from runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  assert_equal_trees,
  column,
  host,
  new_driver,
)


@pytest.mark.parametrize('generation', GENERATIONS)
def test_tape_of_a_run(folder, generation):
  # Cycle 1 is left before step 3; the remaining 9 steps are 5 + 4. The first
  # evaluation after a boundary belongs to the cycle that has just ended.
  assert new_driver(generation=generation).run()
  tape = [
    (int(r['global_step']), r['event'], int(r['cycle']), r['reason'])
    for r in read_events(folder)
  ]
  assert tape == [
    (0, 'cycle_start', 1, ''),
    (1, 'evaluation', 1, ''),
    (2, 'evaluation', 1, ''),
    (3, 'evaluation', 1, ''),
    (3, 'switch', 1, 'loss rises'),
    (3, 'reset', 2, 'early'),
    (3, 'cycle_start', 2, ''),
    (8, 'evaluation', 2, ''),
    (8, 'reset', 3, 'scheduled'),
    (8, 'cycle_start', 3, ''),
    (12, 'finish', 3, 'cycles have run out'),
  ]
  # tau = 1 - 0.6 / 0.8 and 1 - 0.72 / 0.8, in float32 as it is saved.
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  np.testing.assert_allclose(taus, [0.25, 0.1], rtol=1e-6)
  assert column(folder, 'metric_step', event='reset') == ['3', '8']
  starts = {'event': 'cycle_start'}
  assert column(folder, 'cycle_end', **starts) == ['4', '8', '12']
  assert [float(p) for p in column(folder, 'pace', **starts)] == [
    1.0,
    pytest.approx(4 / 5),
    1.0,
  ]


def cosine_rate(t):
  """The rate at nominal step t of a cycle of 4: no warm-up fits into it."""
  return 0.0017486387539278373 / 2 * (1 + math.cos(math.pi * t / 4))


def test_what_is_written_of_resets_and_rates(folder):
  assert new_driver().run()
  reset = {'event': 'reset'}
  assert column(folder, 'mode', **reset) == ['soft', 'soft']
  assert column(folder, 'alpha', **reset) == ['0.5', '0.5']
  metrics = [float(metric) for metric in column(folder, 'metric', **reset)]
  np.testing.assert_array_equal(np.float32(metrics), np.float32([0.6, 0.72]))
  # Of the step that comes, in rows of a start; of the last one taken in others.
  # Step 7 is the last of the five that cycle 2 was stretched to, nominally 3.2:
  # read in between those of whole nominal steps, 0.8 * rate(3) + 0.2 * 0.
  expected = [cosine_rate(t) for t in (0, 0, 1, 2, 2, 0, 0)]
  expected += [0.8 * cosine_rate(3), cosine_rate(0), cosine_rate(0)]
  expected += [cosine_rate(3)]
  np.testing.assert_allclose(
    [float(rate) for rate in column(folder, 'learning_rate')],
    expected,
    rtol=1e-6,
  )


class RecordingLogger:
  """In the place of the benchmark's metrics logger."""

  def __init__(self):
    self.calls = []

  def append_scalar_metrics(self, metrics, global_step):
    self.calls.append((global_step, dict(metrics)))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_what_goes_to_the_benchmarks_logger(generation):
  driver = new_driver(generation=generation)
  logger = driver.workload.metrics_logger = RecordingLogger()
  losses = []
  for _ in range(12):
    driver.step()
    losses.append(train_loss(driver))
  assert driver.run()
  # One call per decision: each rewrites the benchmark's files.
  calls = dict(logger.calls)
  assert [step for step, _ in logger.calls] == [0, 1, 2, 3, 8, 12]
  assert 'loss' not in calls[0]
  for step in (1, 2, 3, 8, 12):
    assert calls[step]['loss'] == pytest.approx(losses[step - 1])
    assert calls[step]['grad_norm'] > 0
  assert calls[2]['smoothed_loss'] == pytest.approx(0.3 * 1.0 + 0.7 * 0.9)
  assert calls[3]['tau'] == pytest.approx(0.25)
  assert calls[3]['cycle'] == 2
  assert calls[3]['learning_rate'] == pytest.approx(cosine_rate(0))


@pytest.mark.parametrize('generation', GENERATIONS)
def test_learning_rate_of_every_step(generation):
  # Cycle 2 is stretched from 4 steps to 5.
  nominal_steps = [0, 1, 2, 0, 0.8, 1.6, 2.4, 3.2, 0, 1, 2, 3]
  expected = [cosine_rate(t) for t in nominal_steps]
  driver = new_driver(generation=generation)
  run = driver.optimizer_state[1]
  schedules = lr_schedule.cycle_schedules(6, PARAMS.hparams, PARAMS)
  actual = []
  for _ in expected:
    driver.step()
    inner = driver.optimizer_state[0].inner
    clock = run.setup.devices.get(
      optimizer.find_state(inner, cycle_clock.CycleClock)
    )
    assert clock.count == driver.global_step
    clock = clock._replace(count=clock.count - 1)
    rate = cycle_clock.clock_learning_rate(clock, schedules, (4, 4, 4))
    actual.append(float(rate))
  # A few roundings of float32 at the size of the peak.
  np.testing.assert_allclose(
    actual, expected, rtol=0, atol=4e-7 * cosine_rate(0)
  )


@pytest.mark.parametrize('generation', GENERATIONS)
def test_finish_comes_before_anything_is_donated(generation):
  driver = new_driver(generation=generation)
  assert driver.run()
  leaves = jax.tree_util.tree_leaves(
    (driver.params, driver.model_state, driver.optimizer_state[0])
  )
  assert not any(leaf.is_deleted() for leaf in leaves)
  assert driver.global_step == 12


def test_a_finished_run_is_not_reset():
  driver = new_driver(dataclasses.replace(PARAMS, reset_mode='full'))
  driver.run(until=12)
  before = host(driver.params)
  with pytest.raises(tiny.TrainingCompleteError):
    driver.step()
  assert_equal_trees(driver.params, before)


def test_hold_goes_on_at_the_final_rate(folder):
  constant = ('constant',) * 3
  params = dataclasses.replace(
    PARAMS, when_cycles_run_out='hold', decays=constant
  )
  driver = new_driver(params)
  assert not driver.run(until=20)
  assert column(folder, 'global_step', event='hold') == ['12']
  assert driver.optimizer_state[1].control.cycle == 2
  run = driver.optimizer_state[1]
  rate = cycle_clock.table_rate(run.setup.rate_tables, run.clock, 19)
  assert rate == pytest.approx(PARAMS.hparams.learning_rate)


@pytest.mark.parametrize('seen_after', [0, 1, 5])
@pytest.mark.parametrize('peak', [1e2, 1e10, 1e20])
def test_a_cycle_that_diverges_is_left_and_the_next_one_trains(
  peak, seen_after
):
  """Whenever an evaluation sees it, whatever is left in the moments."""
  params = ScheduleParams(
    alter_lr=(peak, 0.1, 0.1), warmups=('none',) * 3, switch_k=2
  )
  driver = new_driver(params, step_hint=1000, evaluations={})
  driver.step()
  while driver.global_step < 400 and np.isfinite(train_loss(driver)):
    driver.step()
  driver.run(until=driver.global_step + seen_after)
  driver.eval_results.append(
    (
      driver.global_step,
      {'validation/loss': math.nan, 'validation/accuracy': 0.79},
    )
  )
  driver.step()
  assert driver.optimizer_state[1].control.cycle == 1
  assert all(
    np.isfinite(leaf).all()
    for leaf in jax.tree_util.tree_leaves(host(driver.optimizer_state[0].inner))
  )
  fresh_loss = train_loss(driver)
  driver.run(until=driver.global_step + 100)
  assert train_loss(driver) < 0.1 * fresh_loss


# The statistics of the first step cannot take the place of the donated ones.
@pytest.mark.filterwarnings('ignore:Some donated buffers were not usable')
@pytest.mark.parametrize('generation', GENERATIONS)
@pytest.mark.parametrize('mode', ['soft', 'full'])
def test_batch_statistics_that_change_shape_at_the_first_step(generation, mode):
  params = dataclasses.replace(PARAMS, reset_mode=mode)
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, tiny.reshaping(generation)(), SWITCHING)
  assert driver.run()
  assert driver.optimizer_state[1].control.cycle == 2
  assert host(driver.model_state)['stats']['mean'].shape[-3:] == (1, 1, 6)


def train_loss(driver):
  run = driver.optimizer_state[1]
  return float(run.setup.devices.get(run.step_metrics)['loss'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_an_infinite_model_is_replaced_whole(generation):
  """Even with a finite loss and tau = 0 from a stale evaluation."""
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.25)
  params = dataclasses.replace(PARAMS, hparams=warm)
  driver = new_driver(params, generation, evaluations={1: (1.0, 0.9)})
  driver.run(until=4)
  driver.params = jax.tree_util.tree_map(
    lambda x: x.at[..., 0].set(np.nan), driver.params
  )
  fresh_params, _ = driver.optimizer_state[1].setup.fresh_models.take(0)
  driver.step()
  kernel = host(driver.params)['kernel'].reshape(-1, *(6, 2))
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  for replica in kernel:
    np.testing.assert_array_equal(replica, fresh_params['kernel'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_each_reset_takes_a_model_of_its_own(generation):
  # The first step of a warm-up, at a learning rate of 0, leaves them fresh.
  warm = dataclasses.replace(PARAMS.hparams, warmup_factor=0.25)
  params = dataclasses.replace(PARAMS, hparams=warm, reset_mode='full')
  driver = new_driver(params, generation, evaluations={})
  setup = driver.optimizer_state[1].setup
  for boundary, i in ((4, 0), (8, 1)):
    fresh_params, _ = setup.fresh_models.take(i)
    driver.run(until=boundary + 1)
    kernel = setup.devices.get(driver.params)['kernel']
    np.testing.assert_array_equal(kernel, fresh_params['kernel'])


@pytest.mark.parametrize('generation', GENERATIONS)
def test_tau_of_a_metric_that_falls(folder, generation):
  class Falling(tiny.WORKLOADS[generation]):
    validation_target_value = 0.1

    def has_reached_validation_target(self, eval_result):
      return eval_result['validation/accuracy'] < self.validation_target_value

  params = dataclasses.replace(PARAMS, early_switching=False)
  # From the first evaluation to the target it is a factor of 9; left to go, a
  # factor of 3 at the first boundary and less than nothing at the second.
  evaluations = {1: (1.0, 0.9), 3: (1.0, 0.5), 4: (1.0, 0.3), 8: (1.0, 0.09)}
  functions = submission.make_submission(params)
  assert tiny.Driver(functions, Falling(), evaluations).run()
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  np.testing.assert_allclose(taus, [0.5, 0.0], rtol=1e-6)


def test_a_loss_that_is_not_finite_makes_a_soft_reset_full(folder):
  # The metric says that 1/16 is still to go, and nothing in the model is wrong.
  params = dataclasses.replace(PARAMS, early_switching=False)
  driver = new_driver(params, evaluations={4: (math.nan, 0.75)})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['1.0']
  adam = optimizer.find_state(
    driver.optimizer_state[0].inner, optax.ScaleByAdamState
  )
  assert adam.count == 1


def test_a_metric_that_is_not_finite_makes_a_soft_reset_full(folder):
  params = dataclasses.replace(PARAMS, early_switching=False)
  driver = new_driver(params, evaluations={4: (0.5, math.nan)})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['1.0']
  adam = optimizer.find_state(
    driver.optimizer_state[0].inner, optax.ScaleByAdamState
  )
  assert adam.count == 1


@pytest.mark.parametrize('generation', GENERATIONS)
def test_statistics_that_the_first_step_adds_are_recovered(generation):
  """There are no fresh ones; what is not finite becomes zero."""

  class Adding(tiny.WORKLOADS[generation]):
    def _init(self, rng):
      params, _ = super()._init(rng)
      return params, {}

    def model_fn(self, params, batch, model_state, *args, **kwargs):
      state = model_state or {'mean': jnp.zeros(tiny.NUM_INPUTS)}
      return super().model_fn(params, batch, state, *args, **kwargs)

    if generation == 'jit':
      # The signature tells the generation.
      model_fn.__signature__ = inspect.signature(tiny.TinyWorkload.model_fn)

  driver = tiny.Driver(submission.make_submission(PARAMS), Adding(), {})
  driver.run(until=4)
  driver.model_state = jax.tree_util.tree_map(
    lambda x: x * np.nan, driver.model_state
  )
  driver.step()
  state = driver.optimizer_state[1].setup.devices.get(driver.model_state)
  # 0.9 * 0 + 0.1 * the mean of the step's inputs
  inputs = tiny.batch_of_step(4, 'jit')['inputs']
  np.testing.assert_allclose(state['mean'], 0.1 * inputs.mean(0), rtol=1e-5)


def test_without_an_evaluation_a_soft_reset_keeps_the_model(folder):
  driver = new_driver(evaluations={})
  driver.run(until=5)
  assert column(folder, 'tau', event='reset') == ['0.0']


def test_unknown_metric_is_named_at_the_first_evaluation():
  driver = new_driver(evaluations={})
  driver.step()
  driver.eval_results.append((1, {'validation/loss': 1.0, 'train/loss': 1.0}))
  with pytest.raises(
    ValueError, match="'validation/accuracy'.*train/loss, validation/loss"
  ):
    driver.step()


def test_control_decides_by_what_is_saved():
  """The host copy never knows more than the arrays do."""
  driver = new_driver()
  driver.run(until=4)
  saved, run = driver.optimizer_state
  on_devices = run.setup.devices.get(saved.control)
  assert cycle_control.as_saved(on_devices) == run.control
  assert jax.tree_util.tree_map(np.asarray, run.control) == on_devices

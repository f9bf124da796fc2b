"""Preempted runs decide as if they had not been."""

from __future__ import annotations

import csv
import dataclasses

import flax
import jax
import pytest

from made_up_parts import Moved, registered
from reset_cycles.control.horizons import HORIZONS
from reset_cycles.training.events import read_events
from runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  assert_equal_trees,
  column,
  host,
  host_copy,
  make_checkpoint,
  new_driver,
  restore,
)

RULE = {'name': 'thesis', 'k': 2, 'm': 2}
AVERAGINGS = (
  {'name': 'lawa', 'k': 1, 'distance': 0.1},
  {'name': 'ema', 'span': 0.1, 'distance': 0.1, 'choice': 'alternate'},
)


def intact(entries):
  return list(entries)


def mangled(entries):
  """As v0.5.0 restores them."""
  return [
    ({'0': step, '1': results}, str(i))
    for i, (step, results) in enumerate(entries)
  ]


def lost(entries):
  del entries
  return []


def none(entries):
  """As the current benchmark restores them."""
  del entries


def write_benchmark_log(folder, entries):
  with (folder / 'eval_measurements.csv').open('w', newline='') as lines:
    names = ['accumulated_eval_time', 'global_step', *entries[0][1]]
    writer = csv.DictWriter(lines, names)
    writer.writeheader()
    writer.writerows({'global_step': s, **results} for s, results in entries)


def assert_resumed_run_is_the_same(
  folder, make_driver, until, lefts=(intact, mangled, lost, none)
):
  """Killed after any evaluation; returns the uninterrupted run."""
  driver = make_driver()
  checkpoints, logged = [], []
  for step in range(1, until + 1):
    driver.run(until=step)
    if step in driver.evaluations:
      checkpoints.append(make_checkpoint(driver))
      logged.append(list(driver.eval_results))
  completes = driver.run(until=until + 1)
  events = (folder / 'cycles.csv').read_text()
  final = host((driver.params, driver.optimizer_state[0]))

  resumed = make_driver()
  for checkpoint, entries in zip(checkpoints, logged):
    for left in lefts:
      # cycles.csv goes on beyond the checkpoint, up to the preemption.
      write_benchmark_log(folder, entries)
      restore(resumed, checkpoint, left(entries))
      assert resumed.run(until=until + 1) == completes
      assert (folder / 'cycles.csv').read_text() == events
      assert_equal_trees((resumed.params, resumed.optimizer_state[0]), final)
  return driver


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_resumed_run_is_the_uninterrupted_one(folder, generation):
  """Whatever is left of eval_results."""

  def make_driver():
    return new_driver(generation=generation)

  run = assert_resumed_run_is_the_same(folder, make_driver, until=12)
  assert run.optimizer_state[1].control.cycle == 2
  assert run.evaluations == SWITCHING


# What cannot be told apart in float32: losses that creep down by less than a
# rounding, a metric whose tau is read, and a rise by a hair more than eps1.
CREEPING = {
  **{step: (1.0 - step * 2e-9, 0.6 + step * 1e-9) for step in range(1, 13)},
  13: (1.0 + 0.01 / 0.7 + 1e-9, 0.6),
}


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_resumed_run_decides_in_float64_as_well(folder, generation):
  params = dataclasses.replace(PARAMS, switching={**RULE, 'eps2': -1e-7})

  def make_driver():
    return new_driver(params, generation, CREEPING, step_hint=12)

  assert_resumed_run_is_the_same(folder, make_driver, until=24, lefts=[none])
  # In float32 the minimum of step 1 would be that of all, and out of reach.
  assert column(folder, 'global_step', event='switch') == ['13']
  assert column(folder, 'reason', event='switch') == ['loss rises']
  taus = [float(tau) for tau in column(folder, 'tau', event='reset')]
  assert taus == [1 - (0.6 + 8e-9) / 0.8, 1 - 0.6 / 0.8]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_run_whose_horizon_has_moved_is_resumed(folder, generation):
  """With the clock as it was anchored, and cycles that were not planned."""
  evaluations = {2: (1.0, 0.4), 6: (1.0, 0.6), 9: (1.0, 0.8), 19: (1.0, 0.7)}
  with registered(HORIZONS, moved=Moved):
    horizon = {'name': 'moved', 'to': 17, 'at_evaluation': 2}
    params = dataclasses.replace(PARAMS, policy='repeat', horizon=horizon)

    def make_driver():
      return new_driver(params, generation, evaluations)

    assert_resumed_run_is_the_same(folder, make_driver, 27, [intact, none])
  clocks = [
    (row['global_step'], row['event'], row['cycle'], row['cycle_end'])
    for row in read_events(folder)
    if row['anchor_local']
  ]
  assert clocks == [
    ('0', 'cycle_start', '1', '4'),
    ('4', 'cycle_start', '2', '8'),
    # Two nominal steps are left of cycle 2 and four of cycle 3, for eleven.
    ('6', 'clock', '2', '10'),
    ('10', 'cycle_start', '3', '17'),
    ('17', 'cycle_start', '4', '21'),
    ('21', 'cycle_start', '5', '25'),
    ('25', 'cycle_start', '6', '29'),
  ]


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_run_that_is_laid_over_its_time_is_resumed(folder, generation):
  """With all intervals that its pace is estimated from."""
  times = {1: 10.0, 3: 12.0, 5: 15.5, 9: 19.0, 13: 24.0, 17: 33.0}
  evaluations = {step: (1.0, 0.5, time) for step, time in times.items()}
  params = dataclasses.replace(
    PARAMS, policy='repeat', horizon='time', early_switching=False
  )

  def make_driver():
    return new_driver(params, generation, evaluations, step_hint=30)

  run = assert_resumed_run_is_the_same(folder, make_driver, 20, [intact, none])
  pace = run.optimizer_state[1].control.planning
  assert pace.steps[-5:] == (2, 2, 4, 4, 4)
  assert pace.durations[-5:] == (2, 3.5, 3.5, 5, 9)
  assert len(column(folder, 'pace', event='clock')) == 5


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_run_that_waits_is_resumed(folder, generation):
  """Killed at the evaluation that is waited for, or before."""
  params = dataclasses.replace(PARAMS, wait=True, early_switching=False)
  evaluations = {step: (1.0, 0.05 * step) for step in (3, 6, 9)}

  def make_driver():
    return new_driver(params, generation, evaluations)

  assert_resumed_run_is_the_same(folder, make_driver, 15, [intact, none])
  assert column(folder, 'global_step', event='wait') == ['4', '12']
  assert column(folder, 'metric_step', event='reset') == ['6', '9']


RACE = {
  'name': 'race',
  'probes': 2,
  'rounds': [0.2],
  'scales': [1.0, 2.0],
  'start': 'current',
}


def resumed_race(folder, killed_at, ends):
  """The modes of the resets of a race that is killed at an evaluation."""
  lists = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
  one = {name: getattr(PARAMS, name)[:1] for name in lists}
  params = dataclasses.replace(
    PARAMS, **one, early_switching=False, policy=RACE
  )
  evaluations = {s: (1.0, ends.get(s, 0.1)) for s in range(4, 40, 4)}
  killed = new_driver(params, 'jit', evaluations, 20)
  killed.run(until=killed_at)
  checkpoint, entries = make_checkpoint(killed), killed.eval_results
  write_benchmark_log(folder, entries)
  resumed = new_driver(params, 'jit', evaluations, 20)
  restore(resumed, checkpoint, list(entries))
  resumed.run(until=30)
  modes = column(folder, 'mode', event='reset')
  return list(zip(modes, column(folder, 'scale', event='cycle_start')[1:]))


def test_a_preempted_race(folder):
  """Who wins stays; what was paused and lost begins again."""
  first, second = {8: 0.3, 16: 0.2}, {8: 0.2, 16: 0.3}
  # Nothing is paused yet, or only the loser.
  whole = [('full', '2.0'), ('paused', '2.0')]
  assert resumed_race(folder, 8, second) == whole
  assert resumed_race(folder, 12, second) == whole
  # The winner was paused.
  assert resumed_race(folder, 12, first) == [('full', '2.0'), ('full', '1.0')]
  assert resumed_race(folder, 8, first) == [('full', '2.0'), ('paused', '1.0')]


def test_a_state_of_another_rule_is_refused():
  """Its numbers are others: nothing of them could be trusted."""
  driver = new_driver()
  driver.run(until=3)
  saved, params, model_state, step = make_checkpoint(driver)
  saved = {**saved, 'control': saved['control'][:-2]}
  resumed = new_driver()
  restore(resumed, (saved, params, model_state, step), [])
  with pytest.raises(
    ValueError,
    match='The saved control has 22 numbers, but this run needs 23: ',
  ):
    resumed.step()


def test_a_run_that_starts_does_not_read_the_log_of_another(folder):
  write_benchmark_log(folder, [(0, {'validation/accuracy': 0.7})])
  driver = new_driver(evaluations={})
  driver.step()
  assert driver.optimizer_state[1].control.last_eval_step == -1


def test_a_restored_state_with_a_stray_device_axis_is_understood(folder):
  """The restore of the current benchmark replicates as the old one did."""
  uninterrupted = new_driver()
  assert uninterrupted.run()
  killed = new_driver()
  killed.run(until=3)
  checkpoint, entries = make_checkpoint(killed), killed.eval_results
  resumed = new_driver()
  restore(resumed, checkpoint, entries)
  saved, run = resumed.optimizer_state
  stacked = flax.jax_utils.replicate(
    jax.device_get((saved, resumed.params, resumed.model_state))
  )
  saved, resumed.params, resumed.model_state = stacked
  resumed.optimizer_state = (saved, run)
  assert resumed.run()
  assert_equal_trees(resumed.params, uninterrupted.params)


# What is averaged for evaluations.


def trained(driver):
  """The trained weights, the optimizer's state and the control, on the host."""
  saved, run = driver.optimizer_state
  is_out = run.averaged is not None and run.averaged.out
  params = saved.averaging.slot if is_out else driver.params
  return host_copy(run, (params, saved.inner, saved.control))


@pytest.mark.parametrize('averaging', AVERAGINGS, ids=lambda a: a['name'])
@pytest.mark.parametrize('generation', GENERATIONS)
def test_training_goes_on_from_the_raw_weights(generation, averaging, folder):
  """A checkpoint has what was handed out for the evaluation before it."""
  params = dataclasses.replace(PARAMS, averaging=averaging)
  evaluations = {2: (1.0, 0.4), 3: (0.9, 0.5), 7: (0.8, 0.6), 8: (0.5, 0.72)}

  def make_driver():
    driver = new_driver(params, generation, evaluations)
    driver.workload.eval_period_time_sec = 0.0  # always foreseen
    return driver

  plain = new_driver(
    dataclasses.replace(PARAMS, averaging='none'), generation, evaluations
  )
  driver, checkpoints, handed_out = make_driver(), {}, []
  for step in range(1, 12):
    plain.run(until=step)
    driver.run(until=step)
    assert_equal_trees(trained(driver), trained(plain))
    if step in evaluations:
      checkpoints[step] = make_checkpoint(driver), list(driver.eval_results)
      if driver.optimizer_state[1].averaged.out:
        handed_out.append(step)
  in_turn = 'choice' in averaging  # from the start in each cycle
  assert handed_out == ([2, 7] if in_turn else [2, 3, 7, 8])
  final = trained(driver)

  resumed = make_driver()
  for checkpoint, entries in checkpoints.values():
    restore(resumed, checkpoint, mangled(entries))
    resumed.run(until=11)
    assert_equal_trees(trained(resumed), final)
    if averaging['name'] == 'ema':  # a window is lost
      assert_equal_trees(resumed.params, driver.params)
      assert_equal_trees(resumed.optimizer_state[0], driver.optimizer_state[0])

"""Preempted runs decide as if they had not been."""

from __future__ import annotations

import csv

import flax
import jax
import pytest

from reset_cycles.training import run as run_lib
from reset_cycles.training.events import CYCLES
from runs import (
  GENERATIONS,
  SWITCHING,
  assert_equal_trees,
  host,
  new_driver,
)


def host_copy(run, tree):
  return run.setup.devices.get(tree)


def make_checkpoint(driver):
  """What the benchmark saves: one replica of the state, as a state dict."""
  saved, run = driver.optimizer_state
  return (
    flax.serialization.to_state_dict(host_copy(run, saved)),
    host_copy(run, driver.params),
    host_copy(run, driver.model_state),
    driver.global_step,
  )


def restore(driver, checkpoint, eval_results):
  """What the benchmark does after a preemption: [0] comes from the checkpoint.

  The other half is that of a new init_optimizer_state, whose set-up can serve
  several restores.
  """
  saved, params, model_state, step = checkpoint
  target, run = driver.optimizer_state
  put = run.setup.devices.put
  state = flax.serialization.from_state_dict(host_copy(run, target), saved)
  driver.optimizer_state = (put(state), run_lib.Run(run.setup))
  driver.params, driver.model_state = put(params), put(model_state)
  driver.global_step, driver.eval_results = step, eval_results


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


@pytest.mark.parametrize('generation', GENERATIONS)
def test_a_resumed_run_is_the_uninterrupted_one(folder, generation):
  """Killed after any evaluation, whatever is left of eval_results."""
  driver = new_driver(generation=generation)
  checkpoints, logged = [], []
  for step in range(1, 13):
    driver.run(until=step)
    if step in SWITCHING:
      checkpoints.append(make_checkpoint(driver))
      logged.append(list(driver.eval_results))
  assert driver.run()
  events = (folder / CYCLES).read_text()
  final = host((driver.params, driver.optimizer_state[0]))

  resumed = new_driver(generation=generation)
  for checkpoint, entries in zip(checkpoints, logged):
    for left in (intact, mangled, lost, none):
      # cycles.csv goes on beyond the checkpoint, up to the preemption.
      write_benchmark_log(folder, entries)
      restore(resumed, checkpoint, left(entries))
      assert resumed.run()
      assert (folder / CYCLES).read_text() == events
      assert_equal_trees((resumed.params, resumed.optimizer_state[0]), final)


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

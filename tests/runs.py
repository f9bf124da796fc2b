"""Runs of the submission on a workload of two arrays, and what they leave."""

from __future__ import annotations

import dataclasses

import flax
import jax
import numpy as np

import tiny
from reset_cycles import submission
from reset_cycles.schedule_params import THESIS
from reset_cycles.training.events import read_events
from reset_cycles.training.run_state import Run

GENERATIONS = ('jit', 'pmap')

# 12 steps in 3 cycles of 4. The target accuracy is 0.8.
PARAMS = dataclasses.replace(
  THESIS, switching={'name': 'thesis', 'k': 2, 'm': 2}
)
# After step 3 of cycle 1 the smoothed loss has risen by 0.7 * 0.5 >= 0.01.
SWITCHING = {1: (1.0, 0.4), 2: (0.9, 0.6), 3: (1.4, 0.6), 8: (0.5, 0.72)}


def new_driver(params=PARAMS, generation='jit', evaluations=None, step_hint=6):
  workload = tiny.WORKLOADS[generation](step_hint)
  return tiny.Driver(
    submission.make_submission(params),
    workload,
    SWITCHING if evaluations is None else evaluations,
  )


def column(folder, name, **having):
  rows = [
    row
    for row in read_events(folder)
    if all(row[key] == value for key, value in having.items())
  ]
  return [row[name] for row in rows]


def host(tree):
  return jax.tree_util.tree_map(np.asarray, jax.device_get(tree))


def assert_equal_trees(a, b):
  """To the last bit, where sums over CPU devices come in a fixed order.

  In jaxlib 0.4 they come in the order in which the threads arrive. An ulp of
  a gradient can make 1e-5 of a step of Adam, which is 2e-3 here.
  """
  is_exact = jax.__version_info__ >= (0, 5)

  def compare(x, y):
    # NumPy 1 cannot compare bfloat16 with a tolerance.
    is_short = x.dtype == jax.numpy.bfloat16
    x, y = (np.float32(x), np.float32(y)) if is_short else (x, y)
    tolerance = 0 if is_exact else 2e-2 if is_short else 1e-6
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)

  jax.tree_util.tree_map(compare, host(a), host(b))


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
  driver.optimizer_state = (put(state), Run(run.setup))
  driver.params, driver.model_state = put(params), put(model_state)
  driver.global_step, driver.eval_results = step, eval_results

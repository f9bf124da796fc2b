"""Runs of the submission on a model of two arrays, and what they leave."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math

import flax
import jax

from helpers import fake_benchmark
from helpers.trees import assert_close
from reset_cycles import submission
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cooldown
from reset_cycles.early_switching import SmoothedLossRule
from reset_cycles.engine.records import read_events
from reset_cycles.optimizers.peaks import RelativePeak
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.schedule_params import THESIS, ScheduleParams
from reset_cycles.soft_reset import SoftReset

GENERATIONS = ('jit', 'pmap')

# 12 steps in 3 cycles of 4. The target accuracy is 0.8.
PARAMS = dataclasses.replace(THESIS, switching=SmoothedLossRule(k=2, m=2))
# After step 3 of cycle 1 the smoothed loss has risen by 0.7 * 0.5 >= 0.01.
SWITCHING = {1: (1.0, 0.4), 2: (0.9, 0.6), 3: (1.4, 0.6), 8: (0.5, 0.72)}

# A fresh model, and two cycles that follow the time: of 150 s (300 under pmap) each
# step takes 3.
TIMED = dataclasses.replace(
  THESIS,
  cycles=tuple(
    dataclasses.replace(c, decay=Cooldown(0.25)) for c in THESIS.cycles[:2]
  ),
  optimizer=ScheduleFreeAdamW(r=0.75),
  reset=SoftReset(scale='linear', fade=0.0),
  switching=SmoothedLossRule(lam=1.0, eps1=1e9, eps2=1e9),
  repeat=True,
  relative_peak=RelativePeak(),
  horizon=TimeHorizon(),
)


_STEPS = (1, 5, 9, 13, 17, 21, 25, 30, 34)
_LOSSES = (4.0, 3.0, math.nan, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0)
_METRICS = (0.1, 0.3, 0.3, 0.4, 0.5, 0.6, 0.64, 0.7, 0.7)
TIMING = {
  step: (loss, metric, 3.0 * step)
  for step, loss, metric in zip(_STEPS, _LOSSES, _METRICS)
}


def with_cycles(params: ScheduleParams, **changes) -> ScheduleParams:
  """The settings with these fields in every cycle."""
  cycles = [dataclasses.replace(c, **changes) for c in params.cycles]
  return dataclasses.replace(params, cycles=tuple(cycles))


@functools.cache
def _set_up(params, generation, step_hint):
  """A set-up and what it begins with on the host, for all runs of a session."""
  functions = submission.make_submission(params)
  workload = fake_benchmark.WORKLOADS[generation](step_hint)
  (saved, run), *model = fake_benchmark.begin(functions, workload)
  return functions, workload, run, run.devices.get((saved, *model))


def new_driver(params=PARAMS, generation='jit', evaluations=None, step_hint=6):
  """A run at its beginning; its parts are compiled once per session."""
  functions, workload, run, on_host = _set_up(params, generation, step_hint)
  saved, *model = run.devices.put(on_host)
  run = dataclasses.replace(run, records=copy.deepcopy(run.records))
  return fake_benchmark.Driver(
    functions,
    copy.copy(workload),
    SWITCHING if evaluations is None else evaluations,
    ((saved, run), *model),
  )


def newly_set_up(params=PARAMS, workload='jit', evaluations=None, step_hint=6):
  """The same with a set-up of its own; `workload` may be a workload."""
  if isinstance(workload, str):
    workload = fake_benchmark.WORKLOADS[workload](step_hint)
  return fake_benchmark.Driver(
    submission.make_submission(params),
    workload,
    SWITCHING if evaluations is None else evaluations,
  )


def column(folder, name, **having):
  """A column of cycles.csv, of the rows that have these values."""
  rows = [
    row
    for row in read_events(folder / 'cycles.csv')
    if all(row[key] == value for key, value in having.items())
  ]
  return [row[name] for row in rows]


def devices_of(driver):
  return driver.optimizer_state[1].devices


def train_loss(driver):
  saved = driver.optimizer_state[0]
  return float(devices_of(driver).get(saved.step_metrics)[0])


def assert_equal_trees(a, b, unordered=1e-6):
  """To the last bit, where sums over CPU devices come in a fixed order.

  In jaxlib 0.4 they come in the order in which the threads arrive. An ulp of
  a gradient can make 1e-5 of a step of Adam, which is 2e-3 here. Five iterations
  of Newton-Schulz can make 5e-5 of an ulp, in a step of .2 and in those after
  it: `unordered` says how much is due to the order.
  """
  tolerance = 0 if jax.__version_info__ >= (0, 5) else unordered
  assert_close(a, b, tolerance, tolerance)


def make_checkpoint(driver):
  """What the benchmark saves: one replica of the state, as a state dict."""
  saved, _ = driver.optimizer_state
  get = devices_of(driver).get
  return (
    flax.serialization.to_state_dict(get(saved)),
    get(driver.params),
    get(driver.model_state),
    driver.global_step,
  )


def restore(driver, checkpoint, eval_results):
  """What the benchmark does after a preemption: [0] comes from the checkpoint.

  The other half is that of a new init_optimizer_state, whose set-up can serve
  several restores.
  """
  state, params, model_state, step = checkpoint
  target, run = driver.optimizer_state
  devices = run.devices
  own = {'due': 0, 'evaluations_seen': 0}
  run = dataclasses.replace(run, has_begun=False, **own)
  state = flax.serialization.from_state_dict(devices.get(target), state)
  driver.optimizer_state = (devices.put(state), run)
  driver.params = devices.put(params)
  driver.model_state = devices.put(model_state)
  driver.global_step, driver.eval_results = step, eval_results

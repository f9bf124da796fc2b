"""What a run is built from: made once, before the first step.

The benchmark keeps a run's optimizer state as a pair. `SavedState` is the half
that survives preemption; `Setup` is in the other half, which
init_optimizer_state makes anew.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import jax
import numpy as np

from .. import soft_reset
from ..control import decide as cycle_control
from ..control.decide import Control, Plan
from ..optimizers import adamw as optimizer
from ..schedule_params import ScheduleParams
from ..schedules import cycle_clock, lr_schedule, weight_decay
from . import devices as parallel
from . import resetting
from . import workload as benchmark
from .compiled_ops import CompiledOps
from .fresh_models import FreshModels
from .records import Records


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: Any  # state of optimizer.adamw, with the cycle clock in it
  control: Control


class Setup(NamedTuple):
  """What a run is built from; made once."""

  plan: Plan
  target: benchmark.Target
  training_complete_error: type
  devices: parallel.Devices
  has_device_axis: bool
  train_step: Callable
  rate_tables: tuple[np.ndarray, ...]  # learning rate by nominal step
  inner: optimizer.AdamWSlots
  fresh_models: FreshModels | None  # None if there is no reset
  reset_ops: CompiledOps | None  # likewise
  records: Records


def set_up(
  workload: Any,
  model_params: Any,
  model_state: Any,
  schedule_params: ScheduleParams,
  records: Records,
  rng: Any,
) -> tuple[SavedState, Setup]:
  """Builds everything that a run needs, and its initial state.

  Args:
    workload: the benchmark's workload.
    model_params, model_state: its parameters and batch statistics, as the runner
      hands them over.
    schedule_params: the resolved configuration.
    records: what the run writes down.
    rng: key for the fresh models of resets.

  Raises:
    ValueError: if the cycles do not fit into the run, a schedule gives what is
      no rate, or the workload is none of the benchmark's or has no usable
      target.
  """
  plan = cycle_control.make_plan(workload.step_hint, schedule_params)
  target = benchmark.read_target(workload)
  hparams = schedule_params.hparams
  schedules = lr_schedule.cycle_schedules(
    workload.step_hint, hparams, schedule_params
  )
  has_axis = benchmark.has_device_axis(workload, model_params)
  devices = parallel.PmapDevices() if has_axis else parallel.JitDevices()
  lengths = plan.nominal_lengths
  decays = weight_decay.decay_schedules(schedules, lengths, schedule_params)
  rate_tables = _checked_tables('decays', schedules, lengths)
  if decays is not None:
    _checked_tables('weight_decays', decays, lengths)
  adamw = optimizer.adamw(hparams, schedules, lengths, decays)
  inner = devices.init(adamw.init, devices.place(model_params))
  fresh, ops = _prepare_resets(
    workload, schedule_params, rng, devices, (model_params, model_state), inner
  )
  setup = Setup(
    plan=plan,
    target=target,
    training_complete_error=benchmark.spec_of(workload).TrainingCompleteError,
    devices=devices,
    has_device_axis=has_axis,
    train_step=_make_step(workload, hparams, adamw, devices),
    rate_tables=rate_tables,
    inner=optimizer.AdamWSlots(),
    fresh_models=fresh,
    reset_ops=ops,
    records=records,
  )
  return _initial_state(inner, setup), setup


def _initial_state(inner, setup) -> SavedState:
  """The state before the first step."""
  devices, control = setup.devices, cycle_control.start(setup.plan)
  # A new cycle's clock will be put there, and that must compile nothing.
  devices.put(cycle_control.clock(control, 0, setup.plan))
  return SavedState(inner, devices.put(control))


def _make_step(workload, hparams, adamw, devices) -> Callable:
  """The run's train step; its first call compiles it."""
  body = parallel.train_step(
    benchmark.model_fn_in_training(workload, hparams.dropout_rate),
    benchmark.loss_fn_of_batch(workload, hparams.label_smoothing),
    adamw,
  )
  return devices.compile_step(body)


def _checked_tables(name, schedules, lengths):
  tables = cycle_clock.rate_tables(schedules, lengths)
  cycle_clock.check_tables(name, tables)
  return tables


def _prepare_resets(workload, params, rng, devices, model, opt_state):
  """Fresh models and compiled operations, if anything will be reset."""
  num_resets = params.num_cycles - 1
  if num_resets == 0 or params.reset_mode == 'cyclic':
    return None, None
  if soft_reset.needs_tau(params.reset_mode):
    soft_reset.check_target(float(workload.validation_target_value))
  slots = optimizer.AdamWSlots().slots(opt_state)
  shapes = jax.tree_util.tree_map(devices.shape_of, (*model, slots))
  ops = resetting.compile_reset(*shapes, devices)
  return FreshModels(workload, rng, num_resets, devices), ops

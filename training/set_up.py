"""What a run is built from: made once, before the first step.

The benchmark keeps a run's optimizer state as a pair. `SavedState` is the half
that survives preemption; `Setup` is in the other half, which
init_optimizer_state makes anew.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

from ..control import decide
from ..control.decide import Rules
from ..control.history import Standing
from ..control.policies import Situation
from ..control.state import Target, to_words
from ..optimizers import INNER, Inner
from ..optimizers.clocked import ClockedState, clocked
from ..schedule_params import ScheduleParams, make_rules
from ..schedules import cycle_clock
from ..schedules.cycle import check_cycles
from ..schedules.cycle_clock import CycleClock
from ..settings.checks import check
from ..settings.hparams import Hparams
from ..soft_reset import check_target, needs_tau
from . import resetting, snapshots
from . import workload as workload_facts
from .compiled_ops import CompiledOps
from .devices import Devices, JitDevices, PmapDevices
from .fresh_models import MOST_READY, FreshModels
from .records import Records
from .resetting import Model
from .step import train_step
from .workload import WorkloadApi


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: ClockedState
  control: jax.Array  # shape=(words,), dtype=int32; see control.state.to_words


class Setup(NamedTuple):
  """What a run is built from; made once."""

  rules: Rules
  inner: Inner
  training_complete_error: type[Exception]
  devices: Devices
  has_device_axis: bool
  train_step: Callable
  learning_rate: Callable[[CycleClock], jax.Array]  # compiled
  fresh_models: FreshModels | None  # None if no reset replaces anything
  reset_ops: CompiledOps | None  # likewise
  records: Records


def set_up(
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  schedule_params: ScheduleParams,
  records: Records,
  rng: jax.Array,
  budget: float = math.nan,
) -> tuple[SavedState, Setup]:
  """Builds everything that a run needs, and its initial state.

  Args:
    workload: the benchmark's workload.
    model_params, model_state: its parameters and batch statistics, as the
      runner hands them over.
    schedule_params: the resolved configuration.
    records: where the run's events go.
    rng: key for the fresh models of resets.
    budget: seconds that the run may take; NaN if unknown.

  Raises:
    ValueError: if the cycles do not fit into the run, a schedule leaves what a
      rate may be, or the workload is none of the benchmark's or has no usable
      target.
  """
  target = _read_target(workload, schedule_params)
  inner = INNER.make(schedule_params.optimizer)
  rules = make_rules(workload.step_hint, schedule_params, target, budget)
  check_cycles(rules.cycles)
  has_axis = workload_facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if has_axis else JitDevices()
  optimizer = clocked(inner, rules.cycles)
  state = _initial_state(optimizer, rules, devices, model_params)
  fresh, ops = None, None
  if _may_reset(rules):
    model = Model(devices.place(model_params), model_state, state.inner.inner)
    fresh, ops = _prepare_resets(workload, model, inner, rules, rng, devices)
  spec = workload_facts.spec_of(workload)
  setup = Setup(
    rules=rules,
    inner=inner,
    training_complete_error=spec.TrainingCompleteError,
    devices=devices,
    has_device_axis=has_axis,
    train_step=_make_step(workload, rules, optimizer, devices),
    learning_rate=_compiled_rate(rules),
    fresh_models=fresh,
    reset_ops=ops,
    records=records,
  )
  return state, setup


def _read_target(workload: WorkloadApi, params: ScheduleParams) -> Target:
  target = workload_facts.read_target(workload)
  if needs_tau(params.reset_mode):
    check_target(target.value)
  return target


def _initial_state(
  optimizer: optax.GradientTransformation,
  rules: Rules,
  devices: Devices,
  model_params: Any,
) -> SavedState:
  """The state before the first step."""
  inner = devices.init(optimizer.init, devices.place(model_params))
  # A new cycle's clock will be put there, and that must compile nothing.
  devices.put(decide.first_clock(rules))
  return SavedState(inner, devices.put(to_words(decide.start(rules))))


def _make_step(
  workload: WorkloadApi,
  rules: Rules,
  optimizer: optax.GradientTransformation,
  devices: Devices,
) -> Callable:
  """The run's train step; its first call compiles it."""
  hparams = _shared_hparams(rules)
  body = train_step(
    workload_facts.model_fn_in_training(workload, hparams.dropout_rate),
    workload_facts.loss_fn_of_batch(workload, hparams.label_smoothing),
    optimizer,
  )
  return devices.compile_step(body)


def _shared_hparams(rules: Rules) -> Hparams:
  """What the model's own part of a step takes; it is not read at the clock.

  Raises:
    ValueError: if cycles differ in it.
  """
  first = rules.cycles[0].hparams
  for name in ('dropout_rate', 'label_smoothing'):
    values = [getattr(cycle.hparams, name) for cycle in rules.cycles]
    right = 'the same in all cycles: it is compiled into the step'
    check(len(set(values)) == 1, name, values, right)
  return first


def _compiled_rate(rules: Rules) -> Callable[[CycleClock], jax.Array]:
  """The learning rate at a host copy of the clock, for logging."""
  rate = jax.jit(
    functools.partial(cycle_clock.learning_rate, cycles=rules.cycles)
  )
  rate(decide.first_clock(rules))
  return rate


def _prepare_resets(
  workload: WorkloadApi,
  model: Model,
  inner: Inner,
  rules: Rules,
  rng: jax.Array,
  devices: Devices,
) -> tuple[FreshModels, CompiledOps]:
  """Fresh models, and compiled operations for models of this one's shapes."""
  planned = rules.policy.num_fresh(rules.cycles)
  # The models of a race are taken one soon after the other, on the clock.
  ready = MOST_READY if rules.policy.follows_chain else planned
  fresh = FreshModels(workload, rng, planned, devices, ready)
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  ops = resetting.compile_reset(
    shapes.params, shapes.model_state, inner.slots(shapes.opt_state), devices
  )
  if snapshots.are_needed(rules):
    snapshots.prepare(shapes, ops)
  return fresh, ops


def _may_reset(rules: Rules) -> bool:
  """Whether a reset may replace anything."""
  count, policy = len(rules.cycles), rules.policy
  horizon = sum(cycle.steps for cycle in rules.cycles)
  history = (Standing(),) * policy.num_slots(rules.cycles)
  end = Situation(rules.cycles, count - 1, horizon, horizon, history=history)
  follows = count > 1 or policy.next(end) is not None
  starts = {cycle.start_from for cycle in rules.cycles}
  replaces = rules.reset_mode != 'cyclic' or starts - {'', 'current'}
  return follows and bool(replaces or snapshots.are_needed(rules))

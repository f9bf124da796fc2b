"""The parts of a run, made once, before the first step.

The benchmark keeps a run's optimizer state as a pair. `SavedState` is the half
that survives a preemption; `Setup` is in the other half, which
init_optimizer_state rebuilds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from ..control import decide
from ..control.decide import Rules
from ..control.history import Standing
from ..control.policies import Situation
from ..control.state import Target, to_words
from ..optimizers import INNER, Inner
from ..optimizers.clocked import ClockedState, clocked
from ..optimizers.pool import pooled
from ..schedule_params import ScheduleParams, make_rules
from ..schedules import cycle_clock
from ..schedules.cycle import check_cycles
from ..schedules.cycle_clock import CycleClock
from ..soft_reset import check_target, needs_tau
from . import resetting, snapshots
from . import workload as workload_facts
from .averaging import AveragedState, Averager
from .averaging_set_up import make_averager
from .compiled_ops import CompiledOps
from .devices import Devices
from .fresh_models import MOST_READY, FreshModels
from .records import Records
from .resetting import Model
from .sharded import devices_of
from .step import train_step
from .workload import WorkloadApi


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: ClockedState
  control: jax.Array  # shape=(words,), dtype=int32; see control.state.to_words
  averaging: AveragedState | tuple[()] = ()  # empty if nothing is averaged


class Setup(NamedTuple):
  """The parts of a run, made once."""

  rules: Rules
  inners: tuple[Inner, ...]  # one per cycle, with states of equal structure
  training_complete_error: type[Exception]
  devices: Devices
  has_device_axis: bool
  # One per cycle; see _make_steps.
  train_steps: tuple[Callable, ...]
  # One per cycle, compiled: (state, params) -> those with which its optimizer
  # begins. None if all cycles have the same optimizer.
  beginnings: tuple[Callable, ...] | None
  learning_rate: Callable[[CycleClock], jax.Array]  # compiled
  fresh_models: FreshModels | None  # None if no reset replaces anything
  reset_ops: CompiledOps | None  # likewise
  records: Records
  averager: Averager | None  # None if the trained weights are evaluated


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
    ValueError: if the cycles do not fit into the run, a schedule gives a
      negative or non-finite rate, or the workload is not derived from the
      benchmark's Workload or has no usable target.
  """
  target = _read_target(workload, schedule_params)
  rules = make_rules(workload.step_hint, schedule_params, target, budget)
  check_cycles(rules.cycles)
  has_axis = workload_facts.has_device_axis(workload, model_params)
  devices = devices_of(model_params, has_axis)
  model_params = devices.place(model_params)
  fresh = _make_fresh_models(workload, rules, rng, devices)
  inners = _make_inners(rules, devices, model_params)
  state = _initial_state(inners[0], rules, devices, model_params)
  model = Model(model_params, model_state, state.inner.inner)
  averager, averaging = make_averager(
    rules.cycles, workload.step_hint, inners, model, target.rising, devices
  )
  spec = workload_facts.spec_of(workload)
  setup = Setup(
    rules=rules,
    inners=inners,
    training_complete_error=spec.TrainingCompleteError,
    devices=devices,
    has_device_axis=has_axis,
    train_steps=_make_steps(workload, rules, inners, devices),
    beginnings=_make_beginnings(
      inners, devices, state.inner.inner, model_params
    ),
    learning_rate=_compiled_rate(rules),
    fresh_models=fresh,
    reset_ops=_compile_resets(model, inners, rules, devices),
    records=records,
    averager=averager,
  )
  return state._replace(averaging=averaging), setup


def _read_target(workload: WorkloadApi, params: ScheduleParams) -> Target:
  target = workload_facts.read_target(workload)
  if needs_tau(params.reset_mode):
    check_target(target.value)
  return target


def _initial_state(
  inner: Inner,
  rules: Rules,
  devices: Devices,
  model_params: Any,
) -> SavedState:
  """The state before the first step."""
  inner = devices.init(clocked(inner, rules.cycles).init, model_params)
  # A policy may begin with a probe, at another pace or scale.
  inner = inner._replace(clock=devices.put(decide.first_clock(rules)))
  return SavedState(inner, devices.put(to_words(decide.start(rules))))


def _make_inners(
  rules: Rules, devices: Devices, model_params: Any
) -> tuple[Inner, ...]:
  """The inner optimizer of each cycle; equal settings share one."""
  made = [INNER.make(cycle.optimizer) for cycle in rules.cycles]
  distinct = tuple(dict.fromkeys(made))
  shapes = jax.tree_util.tree_map(devices.shape_of, model_params)
  over_one_state = dict(zip(distinct, pooled(distinct, shapes)))
  return tuple(over_one_state[inner] for inner in made)


def _make_steps(
  workload: WorkloadApi,
  rules: Rules,
  inners: Sequence[Inner],
  devices: Devices,
) -> tuple[Callable, ...]:
  """The train step of each cycle; its first call compiles it.

  Cycles that differ only in numbers share one. Another inner optimizer, another
  label smoothing or, if the submission decides it, another dropout rate needs
  another step. That is compiled at the first step of the first such cycle, in
  timed seconds, once in a run (and once more in a resumed one). It cannot be
  compiled earlier: the shapes of a batch are not known during set-up.
  """
  ours = workload_facts.takes_dropout_rate(workload)
  keys = [
    (inner, c.hparams.dropout_rate if ours else 0.0, c.hparams.label_smoothing)
    for inner, c in zip(inners, rules.cycles)
  ]

  def make(inner: Inner, dropout_rate: float, smoothing: float) -> Callable:
    body = train_step(
      workload_facts.model_fn_in_training(workload, dropout_rate),
      workload_facts.loss_fn_of_batch(workload, smoothing),
      clocked(inner, rules.cycles),
    )
    return devices.compile_step(body)

  steps = {key: make(*key) for key in dict.fromkeys(keys)}
  return tuple(steps[key] for key in keys)


def _make_beginnings(
  inners: Sequence[Inner], devices: Devices, state: Any, model_params: Any
) -> tuple[Callable, ...] | None:
  """Compiled functions that begin each cycle's optimizer; see `Setup`."""
  distinct = tuple(dict.fromkeys(inners))
  if len(distinct) == 1:
    return None
  shapes = jax.tree_util.tree_map(devices.shape_of, (state, model_params))
  compiled = {
    inner: devices.compile(inner.begin, shapes, donate=True)
    for inner in distinct
  }
  return tuple(compiled[inner] for inner in inners)


def _compiled_rate(rules: Rules) -> Callable[[CycleClock], jax.Array]:
  """The learning rate at a host copy of the clock, for logging."""
  rate = jax.jit(
    functools.partial(cycle_clock.learning_rate, cycles=rules.cycles)
  )
  rate(decide.first_clock(rules))
  return rate


def _make_fresh_models(
  workload: WorkloadApi, rules: Rules, rng: jax.Array, devices: Devices
) -> FreshModels | None:
  """Fresh models; None if no reset replaces anything.

  They are made while the devices hold only the parameters: an initialisation
  may need several times the memory of its model.
  """
  if not _may_reset(rules):
    return None
  policy = rules.policy
  planned = policy.num_fresh(rules.cycles)
  ready = min(planned, MOST_READY)
  if not policy.follows_chain:
    # Those of a race are taken in quick succession, in timed seconds.
    ready = planned + policy.num_spare
  return FreshModels(workload, rng, planned, devices, ready)


def _compile_resets(
  model: Model, inners: Sequence[Inner], rules: Rules, devices: Devices
) -> CompiledOps | None:
  """Compiled operations for this model's shapes; None if nothing is reset."""
  if not _may_reset(rules):
    return None
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  slots = [inner.slots(shapes.opt_state) for inner in dict.fromkeys(inners)]
  ops = resetting.compile_reset(
    shapes.params, shapes.model_state, slots, devices
  )
  if snapshots.are_needed(rules):
    snapshots.prepare(shapes, ops)
  return ops


def _may_reset(rules: Rules) -> bool:
  """Whether a reset may replace anything."""
  count, policy = len(rules.cycles), rules.policy
  horizon = sum(cycle.steps for cycle in rules.cycles)
  history = (Standing(),) * policy.num_slots(rules.cycles)
  end = Situation(rules.cycles, count - 1, horizon, horizon, history=history)
  follows = count > 1 or policy.next(end) is not None
  starts = {cycle.start_from for cycle in rules.cycles}
  replaces = rules.reset_mode != 'cyclic' or starts - {''}
  needs_models = policy.makes_fresh or snapshots.are_needed(rules)
  return follows and bool(replaces or needs_models)

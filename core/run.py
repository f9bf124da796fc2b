"""One run: its parts, made before the first step, and what happens after it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging

from .. import soft_reset
from ..soft_reset import Model, Roles, SoftReset
from . import control as control_lib
from . import schedules
from . import workload as workload_facts
from .control import Decision, Event
from .devices import Devices, PmapDevices
from .optimizers import OptState, clocked, global_norm, numbers_at
from .records import Records
from .schedules import CycleClock
from .state import Control, RunConfig, from_words, to_words
from .workload import EvalResults, WorkloadApi

if TYPE_CHECKING:
  from ..schedule_params import ScheduleParams

# Folded into the key of fresh models beyond the plan; no run has more resets.
_LATER = 2**31 - 1


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: OptState
  control: jax.Array  # shape=(words,), dtype=int32; see `state.to_words`
  trained: Any  # the trained parameters; None if they are evaluated as they are


class Setup(NamedTuple):
  """The parts of a run, made once."""

  config: RunConfig
  devices: Devices
  has_device_axis: bool
  records: Records
  rng: jax.Array  # from which the keys of fresh models are derived
  train_step: Callable[..., Any]  # its first call compiles it
  roles: Roles
  learning_rate: Callable[[CycleClock], jax.Array]  # compiled
  training_complete_error: type[Exception]


class Run(NamedTuple):
  """The half that is not saved: the set-up, and host copies of small state."""

  setup: Setup
  control: Control | None = None  # None until the first train step
  clock: CycleClock | None = None  # as of when it was last anchored
  due: int = 0  # the step before which there is something to decide
  evaluations_seen: int = 0
  step_metrics: Mapping[str, jax.Array] | None = None  # of the last step


def set_up(
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  schedule_params: ScheduleParams,
  hyperparameters: Any,
  rng: jax.Array,
) -> tuple[SavedState, Run]:
  """Builds everything that a run needs, and its initial state.

  Args:
    workload: the benchmark's workload.
    model_params, model_state: its parameters and batch statistics, as the
      runner hands them over.
    schedule_params: the settings of the run.
    hyperparameters: those of the runner; None under self-tuning.
    rng: key for the fresh models of resets.

  Raises:
    ValueError: if the cycles do not fit into the run, a schedule gives a
      negative or non-finite rate, the workload is not derived from the
      benchmark's Workload or has no usable target, or a run with other settings
      has begun in the folder.
  """
  target = workload_facts.read_target(workload)
  spec = workload_facts.spec_of(workload)
  if isinstance(schedule_params.reset, SoftReset):
    soft_reset.check_target(target)
  chain = schedule_params.chain(workload.step_hint)
  schedules.check_rates(chain.cycles)
  config = RunConfig(
    schedule_params,
    chain.cycles,
    target,
    workload_facts.budget_seconds(workload, hyperparameters is None),
    workload_facts.most_steps(),
  )
  records = Records(hyperparameters)
  has_axis = workload_facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if has_axis else Devices(model_params)
  model_params, model_state = devices.place((model_params, model_state))
  control, clock = control_lib.start(config)
  optimizer = schedule_params.optimizer
  transformation = clocked(optimizer, config.cycles)
  inner = devices.init(transformation.init, model_params)
  inner = inner._replace(clock=devices.put(clock))
  numbers = numbers_at(clock, config.cycles)
  model = Model(model_params, model_state, inner.state)
  shapes = jax.tree_util.tree_map(devices.shape_of, model)
  roles = soft_reset.roles_of(optimizer.build(numbers).init, shapes.params)
  soft_reset.compile_resets(shapes, roles, devices)
  hparams = config.cycles[0].setting.hparams
  eval_params = functools.partial(optimizer.eval_params, hparams=hparams)
  step = train_step(
    workload_facts.model_fn_in_training(workload, hparams.dropout_rate),
    workload_facts.loss_fn_of_batch(workload, hparams.label_smoothing),
    transformation,
    eval_params if optimizer.evaluates_own else None,
  )
  trained = None
  if optimizer.evaluates_own:
    copied = functools.partial(jax.tree_util.tree_map, jnp.copy)
    trained = devices.init(copied, model_params)
  rate = jax.jit(
    functools.partial(schedules.learning_rate, cycles=config.cycles)
  )
  # Called once, so that they compile before the first step.
  rate(clock)
  for index in (0, len(config.cycles)):
    _key(rng, len(config.cycles), index)
  setup = Setup(
    config=config,
    devices=devices,
    has_device_axis=has_axis,
    records=records,
    rng=rng,
    train_step=devices.compile_step(step),
    roles=roles,
    learning_rate=rate,
    training_complete_error=spec.TrainingCompleteError,
  )
  records.write_settings(workload.step_hint, schedule_params, chain)
  words = devices.put(to_words(control))
  return SavedState(inner, words, trained), Run(setup)


def train_step(
  model_fn: Callable[..., Any],
  loss_fn: Callable[..., Any],
  optimizer: optax.GradientTransformation,
  eval_params: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Any]:
  """The body of a train step.

  The gradient is that of the mean loss over all valid examples of all devices:
  summed losses, summed over devices and divided by the number of valid
  examples.

  Args:
    model_fn: (params, batch, model_state, rng) -> (logits, new model_state), in
      training mode.
    loss_fn: (logits, batch) -> (summed loss, number of valid examples).
    optimizer: the optax transformation.
    eval_params: (its own state, params) -> parameters to evaluate, if these are
      others.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, {'loss', 'grad_norm'}) and, if these are others, the parameters
    to evaluate; total sums a tree over devices.
  """

  def summed_loss(
    params: Any, model_state: Any, batch: Any, rng: jax.Array
  ) -> tuple[jax.Array, tuple[jax.Array, Any]]:
    logits, new_state = model_fn(params, batch, model_state, rng)
    summed, n_valid = loss_fn(logits, batch)
    return summed, (n_valid, new_state)

  def body(
    params: Any,
    model_state: Any,
    opt_state: Any,
    batch: Any,
    rng: jax.Array,
    total: Callable[[Any], Any],
  ) -> tuple[Any, ...]:
    grad_fn = jax.value_and_grad(summed_loss, has_aux=True)
    (summed, (n_valid, new_state)), grads = grad_fn(
      params, model_state, batch, rng
    )
    summed, n_valid, grads = total((summed, n_valid, grads))
    n_valid = jnp.where(n_valid == 0, 1, n_valid)
    grads = jax.tree_util.tree_map(lambda g: g / n_valid, grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    metrics = {'loss': summed / n_valid, 'grad_norm': global_norm(grads)}
    after = params, new_state, opt_state, metrics
    if eval_params is None:
      return after
    return *after, eval_params(opt_state.state, params)

  return body


def act(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: WorkloadApi,
  eval_results: EvalResults | None,
  step: int,
) -> tuple[SavedState, Run, Model]:
  """Takes in evaluations, decides, and does what was decided.

  Args:
    saved, run: the optimizer's state.
    model: its opt_state is an OptState.
    workload, eval_results: the runner's.
    step: the step about to be taken.

  Returns:
    The state and the model with which the step is to be taken.

  Raises:
    TrainingCompleteError: (the benchmark's) if the cycles have run out.
    ValueError: if an evaluation lacks the workload's target metric, or fresh
      parameters do not fit the trained ones.
  """
  setup = run.setup
  if run.control is None:
    saved, run, model = _adopt(saved, run, model, workload, step)
  before, clock = run.control, run.clock
  assert before is not None and clock is not None
  evaluations = workload_facts.new_evaluations(
    eval_results, before.last.step, setup.config.target
  )
  decision = control_lib.decide(before, clock, evaluations, step, setup.config)
  events, control = list(decision.events), decision.control
  if decision.action == control_lib.RESET:
    model, control, event = _reset(setup, model, decision, workload)
    start = control_lib.cycle_start_event(control, decision.clock, setup.config)
    events += [event, start]
  run = run._replace(
    control=control,
    clock=decision.clock,
    due=decision.due,
    evaluations_seen=len(eval_results or ()),
  )
  if decision.action in (control_lib.RESET, control_lib.RE_ANCHOR):
    new_clock = setup.devices.put(decision.clock)
    model = model._replace(opt_state=model.opt_state._replace(clock=new_clock))
  _record(run, events, workload, step)
  if decision.action == control_lib.FINISH:
    raise setup.training_complete_error
  if control is not before:
    words = setup.devices.put(to_words(control))
    saved = saved._replace(control=words)
  return saved, run, model


def _adopt(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: WorkloadApi,
  step: int,
) -> tuple[SavedState, Run, Model]:
  """Takes over the state that the runner hands to the first step.

  It is that of set_up or, in a resumed run, a restored one. The current
  benchmark's restore leaves a device axis on everything; it is removed.
  """
  setup = run.setup
  has_axis = workload_facts.has_device_axis(workload, model.params)
  if has_axis > setup.has_device_axis:
    saved, model = PmapDevices().get((saved, model))
  model = setup.devices.place(model)
  start, _ = control_lib.start(setup.config)
  control = from_words(setup.devices.get(saved.control), start)
  clock = setup.devices.get(model.opt_state.clock)
  run = run._replace(control=control, clock=clock)
  setup.records.start(step, setup.config.settings.switching.columns)
  if step == 0:
    event = control_lib.cycle_start_event(control, clock, setup.config)
    _record(run, [event], workload, 0)
  return saved, run, model


def _reset(
  setup: Setup, model: Model, decision: Decision, workload: WorkloadApi
) -> tuple[Model, Control, Event]:
  """Resets the model as a cycle starts; the clock stays as it is."""
  state = model.opt_state
  own = model._replace(opt_state=state.state)
  look = functools.partial(
    soft_reset.is_finite, own, setup.roles, setup.devices
  )
  plan, event = control_lib.plan_reset(decision, setup.config, look)
  if not plan.touches_nothing:
    fresh = _fresh(setup, workload, own, decision.control.number - 2)
    own = soft_reset.model_reinit_schedule(
      own, fresh, plan, setup.roles, setup.devices
    )
  state = state._replace(state=own.opt_state)
  control = control_lib.after_reset(decision.control, plan, setup.config)
  return own._replace(opt_state=state), control, event


def _fresh(
  setup: Setup,
  workload: WorkloadApi,
  model: Model,
  index: int,
) -> tuple[Any, Any]:
  """The new initialisation for a reset, which is made now, in timed seconds.

  The same index gives the same model, also in a resumed run. `init_model_fn`
  replaces attributes of the workload, among them the model with the runner's
  dropout; they are restored.

  Returns:
    (params, model_state), host arrays without device axis; model_state is None
    if it does not fit.

  Raises:
    ValueError: if its parameters do not fit those that are trained.

  Source: the rules of both generations allow it, "for example, to reinitialize
  the model after a failed training effort".
  """
  key = _key(setup.rng, len(setup.config.cycles), index)
  attributes = dict(vars(workload))
  try:
    params, model_state = setup.devices.get(workload.init_model_fn(key))
  finally:
    vars(workload).update(attributes)
  trained = jax.tree_util.tree_map(setup.devices.shape_of, model)
  if _shapes(params) != _shapes(trained.params):
    raise ValueError(
      "init_model_fn's parameters differ in shape from those that are trained."
    )
  # The model_state that init_model_fn returns need not match that of model_fn.
  if _shapes(model_state) != _shapes(trained.model_state):
    logging.warning(
      "init_model_fn's batch statistics differ in shape from those that are "
      'trained. Resets leave the statistics as they are.'
    )
    model_state = None
  return params, model_state


def _key(rng: jax.Array, num_cycles: int, index: int) -> jax.Array:
  """The key of the fresh model of a reset, planned or beyond the chain."""
  planned = max(num_cycles - 1, 1)
  if index < planned:
    return jax.random.split(rng, planned)[index]
  # Twice, since a single fold_in equals a split in some versions of jax.
  return jax.random.fold_in(jax.random.fold_in(rng, _LATER), index)


def _shapes(tree: Any) -> list[tuple[int, ...]]:
  return [tuple(leaf.shape) for leaf in jax.tree_util.tree_leaves(tree)]


def _record(
  run: Run, events: Sequence[Event], workload: WorkloadApi, step: int
) -> None:
  """Writes events to cycles.csv and to the benchmark's metrics logger.

  After an evaluation the devices have been waited for, so the last step's
  metrics can be read without delaying anything.
  """
  if not events:
    return
  setup, clock = run.setup, run.clock
  assert clock is not None
  now = clock._replace(count=np.int32(step))
  rate = float(setup.learning_rate(now))
  events = [{**event, 'learning_rate': rate} for event in events]
  logger = workload.metrics_logger
  metrics = {}
  if logger is not None and run.step_metrics is not None:
    metrics = setup.devices.get(run.step_metrics)
  setup.records.add(events, step, logger, metrics)

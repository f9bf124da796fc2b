"""One run: its parts, made before the first step, and what happens after it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import soft_reset
from ..schedule_params import ScheduleParams
from ..soft_reset import ResetPlan, SoftReset
from . import control as control_lib
from . import schedules
from . import workload as facts
from .control import Event, RunConfig
from .devices import Devices, PmapDevices
from .evaluation import EvalResults, new_evaluations
from .model_reset import Model, ModelReset, role_by_field
from .optimizers import OptState, clocked, global_norm
from .records import Records
from .schedules import CycleClock
from .state import Control, from_words, to_words
from .workload import WorkloadApi

# Folded into the key of fresh models beyond the plan; no run has more resets.
_LATER = 2**31 - 1


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: OptState
  control: jax.Array  # shape=(words,), dtype=int32; see `state.to_words`
  step_metrics: jax.Array  # shape=(2,); of the last step, see `train_step`


class Setup(NamedTuple):
  """The parts of a run, made once."""

  config: RunConfig
  devices: Devices
  has_device_axis: bool
  records: Records
  rng: jax.Array  # from which the keys of fresh models are derived
  train_step: Callable[..., Any]  # its first call compiles it
  model_reset: ModelReset
  learning_rate: Callable[[Any], jax.Array]  # of a packed clock; compiled
  training_complete_error: type[Exception]


@dataclasses.dataclass
class Run:
  """The half that is not saved: the set-up, and host copies of small state."""

  setup: Setup
  control: Control | None = None  # None until the first train step
  clock: CycleClock | None = None  # as of when it was last anchored
  due: int = 0  # the step before which there is something to decide
  evaluations_seen: int = 0


def set_up(
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  settings: ScheduleParams,
  rng: jax.Array,
) -> tuple[SavedState, Run]:
  """Builds everything that a run needs, and its initial state.

  rng is the key of the fresh models of resets.

  Raises:
    ValueError: if the cycles do not fit into the run, or the workload is not
      the benchmark's or has no usable target.
  """
  target, spec = facts.read_target(workload), facts.spec_of(workload)
  if isinstance(settings.reset, SoftReset):
    soft_reset.check_target(target)
  optimizer, test = settings.optimizer, settings.range_test
  cycles = schedules.jax_lr_schedule(
    workload.step_hint, settings.cycles, settings.budget_factor
  )
  budget = facts.budget_seconds(workload)
  config = RunConfig(settings, cycles, target, budget, facts.most_steps())
  has_axis = facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if has_axis else Devices()
  model_params, model_state = devices.place((model_params, model_state))
  transformation = clocked(optimizer, config.all_cycles)
  control, clock = control_lib.start(config)
  words = schedules.packed(clock, 0 if test is None else test.steps)
  inner = devices.init(transformation.init, model_params)
  inner = inner._replace(clock=devices.put(words))
  step = train_step(
    facts.model_fn_in_training(workload, settings.dropout_rate),
    facts.loss_fn_of_batch(workload, settings.label_smoothing),
    transformation,
    lambda state, params: optimizer.gradient_point(state.state, params),
  )
  rate = jax.jit(
    lambda words: schedules.learning_rate(
      schedules.unpacked(words), config.all_cycles
    )
  )
  # Called once, so that they compile before the first step.
  rate(schedules.packed(clock))
  _key(rng, len(cycles), 0)
  setup = Setup(
    config=config,
    devices=devices,
    has_device_axis=has_axis,
    records=Records(workload.step_hint, settings, cycles),
    rng=rng,
    train_step=devices.compile_step(step if test is None else noting(step)),
    model_reset=ModelReset(
      devices,
      functools.partial(role_by_field, optimizer),
      lambda params: transformation.init(params).state,
      Model(model_params, model_state, inner.state),
    ),
    learning_rate=rate,
    training_complete_error=spec.TrainingCompleteError,
  )
  nothing = np.full(2, np.nan, np.float32)
  saved = SavedState(
    inner, devices.put(to_words(control)), devices.put(nothing)
  )
  return saved, Run(setup)


def train_step(
  model_fn: Callable[..., Any],
  loss_fn: Callable[..., Any],
  optimizer: optax.GradientTransformation,
  gradient_point: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Any]:
  """The body of a train step.

  The gradient is that of the mean loss over all valid examples of all devices.

  Args:
    model_fn: (params, batch, model_state, rng) -> (logits, new model_state), in
      training mode.
    loss_fn: (logits, batch) -> (summed loss, number of valid examples).
    optimizer: the optax transformation.
    gradient_point: (opt_state, params) -> the parameters at which the gradient
      is taken; None for params.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, [loss, gradient norm]); total sums a tree over devices.
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
    point = gradient_point(opt_state, params) if gradient_point else params
    (summed, (n_valid, new_state)), grads = jax.value_and_grad(
      summed_loss, has_aux=True
    )(point, model_state, batch, rng)
    summed, n_valid, grads = total((summed, n_valid, grads))
    n_valid = jnp.where(n_valid == 0, 1, n_valid)
    grads = jax.tree_util.tree_map(lambda g: g / n_valid, grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    # One array, since each costs the call of a step.
    metrics = jnp.stack([summed / n_valid, global_norm(grads)])
    return params, new_state, opt_state, metrics

  return body


def noting(body: Callable[..., Any]) -> Callable[..., Any]:
  """The body of a train step that notes its loss beside the clock."""

  def body_with_note(*args: Any) -> tuple[Any, ...]:
    params, model_state, opt_state, metrics = body(*args)
    words = schedules.with_loss(opt_state.clock, metrics[0])
    return params, model_state, opt_state._replace(clock=words), metrics

  return body_with_note


def act(
  saved: SavedState,
  run: Run,
  model: Model,
  workload: WorkloadApi,
  eval_results: EvalResults | None,
  step: int,
) -> tuple[SavedState, Model]:
  """Takes in evaluations, decides, and does what was decided.

  The state and the model, whose opt_state is an OptState, are those with which
  the step is to be taken; run is brought up to date.

  Raises:
    TrainingCompleteError: (the benchmark's) if the cycles have run out.
    ValueError: if an evaluation lacks the target metric, or a run with other
      settings has begun in the folder.
  """
  setup = run.setup
  if run.control is None:
    saved, model = _adopt(saved, run, model, workload, step)
  assert run.control is not None and run.clock is not None
  last, target = run.control.last.step, setup.config.target
  own = model._replace(opt_state=model.opt_state.state)
  after = control_lib.transition(
    run.control,
    run.clock,
    new_evaluations(eval_results, last, target),
    step,
    setup.config,
    lambda: setup.model_reset.is_finite(own),
    lambda: schedules.noted_losses(setup.devices.get(model.opt_state.clock)),
  )
  is_moved = after.clock is not run.clock
  run.control, run.clock, run.due = after.control, after.clock, after.due
  run.evaluations_seen = len(eval_results or ())
  _record(run, saved, after.events, workload, step)
  if after.is_over:
    raise setup.training_complete_error
  clock = model.opt_state.clock
  if is_moved:
    num_losses = clock.shape[-1] - len(after.clock)
    clock = setup.devices.put(schedules.packed(after.clock, num_losses))
  if after.reset is not None and not after.reset.touches_nothing:
    own = _reset(run, own, after.reset, workload)
  model = own._replace(opt_state=OptState(clock, own.opt_state))
  control = setup.devices.put(to_words(after.control))
  return saved._replace(control=control), model


def _adopt(
  saved: SavedState, run: Run, model: Model, workload: WorkloadApi, step: int
) -> tuple[SavedState, Model]:
  """Takes over the state that set_up made or, in a resumed run, a restored one.

  The current benchmark's restore leaves a device axis on everything.
  """
  setup = run.setup
  has_axis = facts.has_device_axis(workload, model.params)
  if has_axis > setup.has_device_axis:
    saved, model = PmapDevices().get((saved, model))
  model = setup.devices.place(model)
  start, _ = control_lib.start(setup.config)
  run.control = from_words(setup.devices.get(saved.control), start)
  run.clock = schedules.unpacked(setup.devices.get(model.opt_state.clock))
  columns = setup.config.settings.switching.columns
  setup.records.start(workload.metrics_logger, step, columns)
  if step == 0:
    event = control_lib.start_event(run.control, run.clock, setup.config)
    _record(run, saved, [event], workload, 0)
  return saved, model


def _reset(
  run: Run, model: Model, plan: ResetPlan, workload: WorkloadApi
) -> Model:
  """Resets the model as a cycle starts; the old one is donated.

  The fresh model is made now, in timed seconds, on the host's CPU, so that the
  accelerator needs room for one more model only. The same number of cycles
  gives the same model, also in a resumed run. What `init_model_fn` replaces of
  the workload, such as the model with the runner's dropout, is restored.

  Source: the rules of both generations allow it, "for example, to reinitialize
  the model after a failed training effort".
  """
  setup = run.setup
  assert run.control is not None
  key = _key(setup.rng, len(setup.config.cycles), run.control.number - 2)
  attributes = dict(vars(workload))
  try:
    with jax.default_device(_cpu()):
      fresh = workload.init_model_fn(jnp.asarray(key))
  finally:
    vars(workload).update(attributes)
  return setup.model_reset(model, setup.devices.get(fresh), plan)


def _cpu() -> Any:
  """A device of the host's CPU; None, the default device, without one."""
  try:
    return jax.local_devices(backend='cpu')[0]
  except RuntimeError:  # a process that was told to use the accelerator only
    return None


def _key(rng: jax.Array, num_cycles: int, index: int) -> np.ndarray:
  """The key of the fresh model of a reset, planned or beyond the chain."""
  planned = max(num_cycles - 1, 1)
  if index < planned:
    return np.asarray(jax.random.split(rng, planned))[index]
  # Twice, since a single fold_in equals a split in some versions of jax.
  later = jax.random.fold_in(rng, _LATER)
  return np.asarray(jax.random.fold_in(later, index))


def _record(
  run: Run,
  saved: SavedState,
  events: Sequence[Event],
  workload: WorkloadApi,
  step: int,
) -> None:
  """Passes events to the records, with the rate and the last step's metrics.

  Only after an evaluation, when the devices have been waited for.
  """
  if not events:
    return
  assert run.clock is not None
  now = run.clock._replace(count=np.int32(step))
  rate = float(run.setup.learning_rate(schedules.packed(now)))
  events = [{**event, 'learning_rate': rate} for event in events]
  logger, metrics = workload.metrics_logger, {}
  if logger is not None:
    loss, grad_norm = run.setup.devices.get(saved.step_metrics)
    metrics = {'loss': loss, 'grad_norm': grad_norm}
  run.setup.records.add(events, step, logger, metrics)

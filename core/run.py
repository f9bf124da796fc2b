"""One run: its parts, made before the first step, and what happens after it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..early_switching import Progress
from ..schedule_params import ScheduleParams
from ..soft_reset import FULL, SoftReset
from . import control as control_lib
from . import schedules
from . import workload as facts
from .checks import check
from .control import RunConfig
from .devices import Devices, PmapDevices
from .evaluation import EvalResults, new_evaluations
from .model_reset import Model, ModelReset, role_by_field
from .optimizers import OptState, clocked, global_norm
from .records import Event, Records
from .schedules import CycleClock
from .state import Control, from_words, to_words
from .workload import WorkloadApi

# Folded into the key of fresh models that no planned reset has; no run has more
# resets. The first cycle's model has it as its index.
_LATER = 2**31 - 1


class SavedState(NamedTuple):
  """The half of the optimizer state that is saved: arrays on the devices."""

  inner: OptState
  control: jax.Array  # shape=(words,), dtype=int32; see `state.to_words`
  step_metrics: jax.Array  # shape=(2,), of the last step; see `train_step`


# What a step is given, with parameters and statistics.
Given = tuple[SavedState, Any, Any]


@dataclasses.dataclass
class Run:
  """The half that is not saved: the parts of a run, and its state on the host."""

  config: RunConfig
  devices: Devices
  records: Records
  rng: jax.Array  # from which the keys of fresh models are derived
  train_step: Callable[..., Any]  # its first call compiles it
  model_reset: ModelReset
  learning_rate: Callable[[Any], jax.Array]  # of a packed clock; compiled
  control: Control
  clock: CycleClock  # as of the last call of `act`
  has_begun: bool = False  # in this process
  due: int = 0  # the step before which there is something to decide
  evaluations_seen: int = 0

  def act(
    self,
    saved: SavedState,
    params: Any,
    model_state: Any,
    workload: WorkloadApi,
    eval_results: EvalResults | None,
    step: int,
  ) -> Given:
    """Takes in evaluations, decides, does it, and returns what to go on with.

    Raises:
      TrainingCompleteError: (the benchmark's) if the cycles have run out.
      ValueError: if an evaluation lacks the target metric, init_model_fn's
        parameters do not fit the trained ones, or a run with other settings has
        begun in the folder.
    """
    if not self.has_begun:
      given = saved, params, model_state
      saved, params, model_state = self._adopt(given, workload, step)
    last, target = self.control.last.step, self.config.target
    model = Model(params, model_state, saved.inner.state)
    if step == 0:
      model = self._first_model(saved, model, workload)
    after = control_lib.transition(
      self.control,
      self.clock,
      new_evaluations(eval_results, last, target),
      step,
      self.config,
      lambda: self.model_reset.is_finite(model),
    )
    self.control, self.due = after.control, after.due
    self.clock = after.clock._replace(count=np.int32(step))
    self.evaluations_seen = len(eval_results or ())
    self._record(saved, after.events)
    if after.is_over:
      raise facts.spec_of(workload).TrainingCompleteError
    if after.reset is not None and not after.reset.touches_nothing:
      fresh = self._fresh_model(workload)
      model = self.model_reset(model, fresh, after.reset)
    saved = self.saved(model.opt_state, saved.step_metrics)
    return saved, model.params, model.model_state

  def saved(self, opt_state: Any, step_metrics: Any) -> SavedState:
    """The half that is saved, with this one's clock and control."""
    # One by one: under pmap that compiles what every later call needs.
    words = schedules.packed(self.clock), to_words(self.control)
    clock, control = map(self.devices.put, words)
    return SavedState(OptState(clock, opt_state), control, step_metrics)

  def _adopt(self, given: Given, workload: WorkloadApi, step: int) -> Given:
    """Takes over what set_up made or, in a resumed run, what was restored.

    The current benchmark's restore leaves a device axis on everything.
    """
    is_pmap = isinstance(self.devices, PmapDevices)
    if facts.has_device_axis(workload, given[1]) and not is_pmap:
      given = PmapDevices().get(given)
    saved, params, model_state = self.devices.place(given)
    words, clock = self.devices.get((saved.control, saved.inner.clock))
    self.control = from_words(words, self.control)
    self.clock = schedules.unpacked(clock)
    self.records.start(workload.metrics_logger, step)
    self.has_begun = True
    return saved, params, model_state

  def _first_model(
    self, saved: SavedState, model: Model, workload: WorkloadApi
  ) -> Model:
    """The model of the first cycle, whose peak suits a model made anew."""
    peak = math.nan
    if rule := self.config.settings.relative_peak:
      fresh = self._fresh_model(workload)
      peak = rule.peak(fresh[0])
      model = self.model_reset(model, fresh, FULL)
    start = control_lib.start(self.config, peak)
    self.control, self.clock, event = start
    self._record(saved, [event])
    return model

  def _fresh_model(self, workload: WorkloadApi) -> tuple[Any, Any]:
    """(params, model_state) as a cycle starts, on the host.

    The fresh model is made now, in timed seconds, on the host's CPU, so that the
    accelerator needs room for one more model only. The same number of cycles
    gives the same model, also in a resumed run. What `init_model_fn` replaces of
    the workload, such as the model with the runner's dropout, is restored.

    Source: the rules of both generations allow it, "for example, to reinitialize
    the model after a failed training effort".
    """
    number = self.control.number
    index = number - 2 if number > 1 else _LATER
    key = _key(self.rng, len(self.config.cycles), index)
    try:
      cpu = jax.local_devices(backend='cpu')[0]
    except RuntimeError:  # a process that was told to use the accelerator only
      cpu = None
    attributes = dict(vars(workload))
    try:
      with jax.default_device(cpu):
        fresh = workload.init_model_fn(jax.device_put(key))
    finally:
      vars(workload).update(attributes)
    made: tuple[Any, Any] = self.devices.get(fresh)
    return made

  def _record(self, saved: SavedState, events: Sequence[Event]) -> None:
    """Passes events to the records, with the rate and the last step's metrics.

    Only after an evaluation, when the devices have been waited for.
    """
    if not events:
      return
    rate = float(self.learning_rate(schedules.packed(self.clock)))
    events = [{**event, 'learning_rate': rate} for event in events]
    loss, grad_norm = self.devices.get(saved.step_metrics)
    numbers = {'loss': loss, 'grad_norm': grad_norm}
    self.records.add(events, int(self.clock.count), numbers)


def set_up(
  settings: ScheduleParams,
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  hyperparameters: Any,
  rng: jax.Array,
) -> tuple[SavedState, Run]:
  """The initial state and the run, as the pair that checkpoints demand.

  All but the settings is what the benchmark hands to init_optimizer_state.

  Raises:
    ValueError: under the external ruleset; if the cycles do not fit into the
      run, or the workload is not the benchmark's or has no usable target.
  """
  # The benchmark's own test hands over an empty dict in place of None.
  right = 'None, as under the self-tuning ruleset'
  check(not hyperparameters, 'hyperparameters', hyperparameters, right)
  target, optimizer = facts.read_target(workload), settings.optimizer
  is_needed = isinstance(settings.switching, Progress)
  is_needed &= settings.early_switching
  is_needed |= isinstance(settings.reset, SoftReset)
  right = 'above 0 where a soft reset or Progress measures the way to it'
  is_usable = target.value > 0 or not is_needed
  check(is_usable, 'validation_target_value', target.value, right)
  cycles = schedules.jax_lr_schedule(
    workload.step_hint, settings.cycles, settings.budget_factor
  )
  budget = facts.budget_seconds(workload)
  config = RunConfig(settings, cycles, target, budget, facts.most_steps())
  is_pmap = facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if is_pmap else Devices()
  model_params, model_state = devices.place((model_params, model_state))
  transformation = clocked(optimizer, cycles)
  control, clock, _ = control_lib.start(config)
  inner = devices.init(transformation.init, model_params)
  step = train_step(
    facts.loss_in_training(
      workload, settings.dropout_rate, settings.label_smoothing
    ),
    transformation,
    lambda state, params: optimizer.gradient_point(state.state, params),
  )
  rate = jax.jit(functools.partial(schedules.learning_rate, cycles=cycles))
  # Called once, so that they compile before the first step.
  rate(schedules.packed(clock))
  _key(rng, len(cycles), 0)
  run = Run(
    config=config,
    devices=devices,
    records=Records(workload.step_hint, settings, cycles),
    rng=rng,
    train_step=devices.compile_step(step),
    model_reset=ModelReset(
      devices,
      functools.partial(role_by_field, optimizer),
      lambda params: transformation.init(params).state,
      Model(model_params, model_state, inner.state),
    ),
    learning_rate=rate,
    control=control,
    clock=clock,
  )
  nothing = devices.put(np.full(2, np.nan, np.float32))
  return run.saved(inner.state, nothing), run


def train_step(
  loss_fn: Callable[..., Any],
  optimizer: optax.GradientTransformation,
  gradient_point: Callable[[Any, Any], Any] = lambda opt_state, params: params,
) -> Callable[..., Any]:
  """The body of a train step: with the mean loss over all valid examples.

  Args:
    loss_fn: see `workload.loss_in_training`.
    optimizer: what steps.
    gradient_point: (opt_state, params) -> where the gradient is taken.

  Returns:
    (params, model_state, opt_state, batch, rng, total) -> (params, model_state,
    opt_state, [loss, gradient norm]); total sums a tree over devices.
  """
  graded = jax.value_and_grad(loss_fn, has_aux=True)

  def body(
    params: Any,
    model_state: Any,
    opt_state: Any,
    batch: Any,
    rng: jax.Array,
    total: Callable[[Any], Any],
  ) -> tuple[Any, ...]:
    point = gradient_point(opt_state, params)
    (summed, (n_valid, model_state)), grads = graded(
      point, model_state, batch, rng
    )
    summed, n_valid, grads = total((summed, n_valid, grads))
    n_valid = jnp.where(n_valid == 0, 1, n_valid)
    # The count is a float32 and would turn a bfloat16 leaf into one.
    grads = jax.tree_util.tree_map(
      lambda g: (g / n_valid).astype(g.dtype), grads
    )
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    # One array, since each costs the call of a step.
    metrics = jnp.stack([summed / n_valid, global_norm(grads)])
    return params, model_state, opt_state, metrics

  return body


def _key(rng: jax.Array, num_cycles: int, index: int) -> np.ndarray:
  """The key of a fresh model: of the first cycle, or of a reset."""
  planned = max(num_cycles - 1, 1)
  if index < planned:
    return np.asarray(jax.random.split(rng, planned))[index]
  # Twice, since a single fold_in equals a split in some versions of jax.
  later = jax.random.fold_in(rng, _LATER)
  return np.asarray(jax.random.fold_in(later, index))

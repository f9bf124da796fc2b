"""What rivals share: the benchmark's functions around an optax optimizer.

A rival is an optimizer per phase of the run and, if it does not evaluate the
model that it trains, a pair of maps between the two. The model that the runner
holds is always the one to be evaluated, in both generations, since v0.5.0
evaluates without notice; the step recovers the trained one from the state.

Nothing here makes decisions: of this project's submission only the plumbing is
used, that is the layout of arrays on devices and the access to workloads.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ... import submission as own
from ...training import workload as workload_facts
from ...training.devices import Devices, JitDevices, PmapDevices
from ...training.workload import EvalResults, WorkloadApi

# Budgets of self-tuning submissions over max_allowed_runtime_sec, and so, if
# step_hint steps take max_allowed_runtime_sec, over step_hint.
BUDGET_2024, BUDGET = 3.0, 1.5


class Phase(NamedTuple):
  """A part of the run with its own optimizer.

  Attributes:
    steps: how long it lasts; None for an endless last phase, else the run is
      complete after the last one.
    optimizer: starts afresh with the phase; from the second phase on, so does
      the model, from the run's first parameters.
  """

  steps: int | None
  optimizer: optax.GradientTransformation


class Rival(NamedTuple):
  """A rival's method.

  Attributes:
    phases: (step_hint, budget over step_hint) -> phases, in order.
    dropout_rate: probability; used where the submission decides it.
    trained: (evaluated model, optimizer state) -> trained model; traced.
    evaluated: (trained model, optimizer state) -> evaluated model; traced.
    averages: whether the two differ. Batch statistics are then those of the
      evaluated model.
    progress: (optimizer state, share of the budget used up, share that a step
      takes) -> optimizer state; None for rivals that ignore time.
  """

  phases: Callable[[int, float], Sequence[Phase]]
  dropout_rate: float = 0.1
  trained: Callable[[Any, Any], Any] = lambda params, state: params
  evaluated: Callable[[Any, Any], Any] = lambda params, state: params
  averages: bool = False
  progress: Callable[[Any, Any, Any], Any] | None = None


class Saved(NamedTuple):
  """The half of the optimizer state that a checkpoint keeps."""

  inner: Any
  first: Any  # the first parameters, if later phases start from them


class Fixed(NamedTuple):
  """The other half, rebuilt by init_optimizer_state."""

  ends: tuple[int, ...]  # first step after each phase that ends
  steps: tuple[Callable, ...]  # compiled train steps, one per phase
  inits: tuple[Callable, ...]  # first parameters -> (parameters, state)
  devices: Devices
  budget_sec: float
  set_pace: Callable | None
  seen: list[int]  # one number: how many evaluations have been looked at


def init_optimizer_state(
  rival: Rival,
  workload: WorkloadApi,
  model_params: Any,
  model_state: Any,
  hyperparameters: Any,
  rng: jax.Array,
) -> tuple[Saved, Fixed]:
  """The benchmark's function, preceded by the rival.

  Raises:
    ValueError: if there are hyperparameters, as a rival has its own.
  """
  del rng
  if hyperparameters:
    raise ValueError(
      f'hyperparameters={hyperparameters!r}: hyperparameters must be None, as '
      'rivals run under the self-tuning ruleset, with their own.'
    )
  has_axis = workload_facts.has_device_axis(workload, model_params)
  devices = PmapDevices() if has_axis else JitDevices()
  factor = BUDGET_2024 if has_axis else BUDGET
  phases = rival.phases(workload.step_hint, factor)
  lengths = [phase.steps for phase in phases if phase.steps is not None]
  has_statistics = bool(jax.tree_util.tree_leaves(model_state))
  fixed = Fixed(
    ends=tuple(itertools.accumulate(lengths)),
    steps=tuple(
      devices.compile_step(_body(rival, workload, phase, has_statistics))
      for phase in phases
    ),
    inits=tuple(_init_fn(rival, phase.optimizer) for phase in phases),
    devices=devices,
    budget_sec=factor * getattr(workload, 'max_allowed_runtime_sec', 0),
    set_pace=rival.progress,
    seen=[0],
  )
  params = devices.place(model_params)
  first = devices.init(_copied, params) if len(phases) > 1 else ()
  _, inner = devices.init(fixed.inits[0], params)
  return Saved(inner, first), fixed


def _copied(tree: Any) -> Any:
  # The addition forces a copy: jit would return the very buffers that a step is
  # going to donate.
  return jax.tree_util.tree_map(lambda x: x + 0, tree)


def _init_fn(rival: Rival, optimizer: optax.GradientTransformation) -> Callable:
  def init(params: Any) -> tuple[Any, Any]:
    params = _copied(params)
    state = _copied(optimizer.init(params))
    return rival.evaluated(params, state), state

  return init


def _body(
  rival: Rival, workload: WorkloadApi, phase: Phase, has_statistics: bool
) -> Callable:
  """A train step; arguments and results as in training.step.train_step."""
  model_fn = workload_facts.model_fn_in_training(workload, rival.dropout_rate)
  loss_fn = workload_facts.loss_fn_of_batch(workload, 0.0)

  def summed_loss(params: Any, *rest: Any) -> tuple[jax.Array, Any]:
    logits, new_state = model_fn(params, *rest)
    summed, n_valid = loss_fn(logits, rest[0])
    return summed, (n_valid, new_state)

  def body(
    held: Any,
    model_state: Any,
    state: Any,
    batch: Any,
    rng: jax.Array,
    total: Callable[[Any], Any],
  ) -> tuple[Any, Any, Any, dict[str, jax.Array]]:
    params = rival.trained(held, state)
    (summed, (n_valid, new_state)), grads = jax.value_and_grad(
      summed_loss, has_aux=True
    )(params, batch, model_state, rng)
    summed, n_valid, grads = total((summed, n_valid, grads))
    grads = jax.tree_util.tree_map(lambda g: g / n_valid, grads)
    updates, state = phase.optimizer.update(grads, state, params)
    held = rival.evaluated(optax.apply_updates(params, updates), state)
    if rival.averages and has_statistics:
      _, new_state = model_fn(held, batch, model_state, rng)
    norm = jnp.sqrt(
      sum(jnp.sum(jnp.square(g)) for g in jax.tree_util.tree_leaves(grads))
    )
    return held, new_state, state, {'loss': summed / n_valid, 'grad_norm': norm}

  return body


def update_params(
  workload: WorkloadApi,
  current_param_container: Any,
  current_params_types: Any,
  model_state: Any,
  hyperparameters: Any,
  batch: dict[str, Any],
  loss_type: Any,
  optimizer_state: tuple[Saved, Fixed],
  eval_results: EvalResults,
  global_step: int,
  rng: jax.Array,
  train_state: Any = None,
) -> tuple[tuple[Saved, Fixed], Any, Any]:
  """The benchmark's function: begins a phase if one is due, and takes a step.

  Raises:
    TrainingCompleteError: (the benchmark's) after the last phase.
  """
  del current_params_types, hyperparameters, loss_type, train_state
  saved, fixed = optimizer_state
  params, inner = current_param_container, saved.inner
  phase = bisect.bisect_right(fixed.ends, global_step)
  if phase == len(fixed.steps):
    raise workload_facts.spec_of(workload).TrainingCompleteError
  if phase > 0 and global_step == fixed.ends[phase - 1]:
    params, inner = fixed.devices.init(fixed.inits[phase], saved.first)
  eval_results = eval_results or ()  # None if a restore has lost them
  if fixed.set_pace and len(eval_results) > fixed.seen[0]:
    fixed.seen[0] = len(eval_results)
    inner = _paced(fixed, inner, eval_results, global_step)
  params, model_state, inner, metrics = fixed.steps[phase](
    params, model_state, inner, batch, rng
  )
  if global_step % 100 == 0 and workload.metrics_logger is not None:
    workload.metrics_logger.append_scalar_metrics(
      {k: float(v) for k, v in fixed.devices.get(metrics).items()}, global_step
    )
  return (saved._replace(inner=inner), fixed), params, model_state


def _paced(
  fixed: Fixed, inner: Any, eval_results: EvalResults, global_step: int
) -> Any:
  """The state, told the share of the budget that a step takes on average."""
  step, results = workload_facts.decode(eval_results[-1])
  seconds = float(results.get('accumulated_submission_time', 0.0))
  if step < 1 or seconds <= 0.0 or fixed.budget_sec <= 0.0:
    return inner
  pace = seconds / step / fixed.budget_sec
  used, pace = np.float32(global_step * pace), np.float32(pace)
  return fixed.set_pace(inner, *fixed.devices.put((used, pace)))


def prepare_for_eval(
  workload: WorkloadApi,
  current_param_container: Any,
  current_params_types: Any,
  model_state: Any,
  hyperparameters: Any,
  loss_type: Any,
  optimizer_state: tuple[Saved, Fixed],
  eval_results: EvalResults,
  global_step: int,
  rng: jax.Array,
) -> tuple[tuple[Saved, Fixed], Any, Any]:
  """The benchmark's function; the runner already holds the evaluated model."""
  del workload, current_params_types, hyperparameters, loss_type
  del eval_results, global_step, rng
  return optimizer_state, current_param_container, model_state


def submission_of(rival: Rival) -> own.Submission:
  """The five functions that the benchmark takes from a submission module.

  Data and batch sizes are as in this project's submission: the benchmark's.
  """

  def init(*args: Any, **kwargs: Any) -> tuple[Saved, Fixed]:
    return init_optimizer_state(rival, *args, **kwargs)

  return own.Submission(
    init,
    update_params,
    prepare_for_eval,
    own.data_selection,
    own.get_batch_size,
  )

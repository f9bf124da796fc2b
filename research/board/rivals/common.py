"""What rivals share: the benchmark's functions around an optax optimizer.

A rival is an optimizer and, if it does not evaluate the model that it trains, a
pair of maps between the two. The runner always holds the model to be evaluated,
since v0.5.0 evaluates without notice; the step recovers the trained one from
the state.

Of this project's submission only the layout of arrays on devices and the access
to workloads are used, and its NadamW, which is the benchmark's. Two rivals need
an optax that is newer than the benchmark's: `optax.contrib` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from .... import submission as own
from ....core import workload as workload_facts
from ....core.devices import Devices, PmapDevices
from ....core.evaluation import EvalResults, decode
from ....core.workload import WorkloadApi
from ....engine.train_step import loss_in_training, train_step
from ....optimizers.momentum import NadamW
from ....optimizers.step import Step

# Budgets of self-tuning submissions over max_allowed_runtime_sec, and so, if
# step_hint steps take max_allowed_runtime_sec, over step_hint.
BUDGET_2024, BUDGET = 3.0, 1.5


class Hparams(NamedTuple):
  """NadamW's hyperparameters; warmup_factor is a share of the schedule."""

  learning_rate: float
  one_minus_beta1: float
  beta2: float
  weight_decay: float
  warmup_factor: float


# The benchmark's self-tuning baseline in both generations.
BASELINE = Hparams(
  learning_rate=0.0017486387539278373,
  one_minus_beta1=0.06733926164,
  beta2=0.9955159689799007,
  weight_decay=0.08121616522670176,
  warmup_factor=0.02,
)


def nadamw(
  hparams: Hparams, rate: Callable[[Any], Any]
) -> optax.GradientTransformation:
  """NadamW under a schedule, count -> learning rate, which scales the decay."""
  return optax.chain(
    NadamW(
      one_minus_beta1=hparams.one_minus_beta1, beta2=hparams.beta2
    ).direction(Step(1.0)),
    optax.add_decayed_weights(hparams.weight_decay),
    optax.scale_by_schedule(lambda count: -rate(count)),
  )


def warmup_cosine(hparams: Hparams, steps: int) -> Callable[[Any], Any]:
  """Linear warm-up from 0, cosine decay to 0 at `steps`, then 0."""
  warmup = int(hparams.warmup_factor * steps)
  peak = hparams.learning_rate
  return optax.join_schedules(
    [
      optax.linear_schedule(0.0, peak, warmup),
      optax.cosine_decay_schedule(peak, max(steps - warmup, 1)),
    ],
    [warmup],
  )


class Rival(NamedTuple):
  """A rival's method.

  Attributes:
    optimizer: (step_hint, budget over step_hint) -> optimizer.
    trained: (evaluated model, optimizer state) -> trained model; traced. None
      if they are the same. Else batch statistics are those of the evaluated
      model.
    evaluated: (trained model, optimizer state) -> evaluated model; traced.
    progress: (optimizer state, share of the budget used up, share that a step
      takes) -> optimizer state.
    dropout_rate: in force where model_fn takes it (main).
  """

  optimizer: Callable[[int, float], optax.GradientTransformation]
  trained: Callable[[Any, Any], Any] | None = None
  evaluated: Callable[[Any, Any], Any] = lambda params, state: params
  progress: Callable[[Any, Any, Any], Any] = lambda state, used, pace: state
  dropout_rate: float = 0.1


class Fixed(NamedTuple):
  """What is not saved, but rebuilt by init_optimizer_state."""

  step: Callable[..., Any]  # the compiled train step
  devices: Devices
  budget_sec: float
  progress: Callable[..., Any]
  seen: list[int]  # one number: how many evaluations have been looked at


def _step_fn(
  rival: Rival,
  workload: WorkloadApi,
  optimizer: optax.GradientTransformation,
  has_statistics: bool,
) -> Callable[..., Any]:
  """The body of a train step; see `engine.train_step`."""
  loss_fn = loss_in_training(workload, rival.dropout_rate, 0.0)
  step = train_step(loss_fn, optimizer)
  if rival.trained is None:
    return step
  trained = rival.trained

  def body(
    held: Any, model_state: Any, state: Any, batch: Any, rng: Any, total: Any
  ) -> tuple[Any, Any, Any, Any]:
    params, new_state, state, metrics = step(
      trained(held, state), model_state, state, batch, rng, total
    )
    held = rival.evaluated(params, state)
    if has_statistics:
      _, (_, new_state) = loss_fn(held, model_state, batch, rng)
    return held, new_state, state, metrics

  return body


def submission_of(rival: Rival) -> own.Submission:
  """The five functions that the benchmark takes from a submission module."""

  def init_optimizer_state(
    workload: WorkloadApi,
    model_params: Any,
    model_state: Any,
    hyperparameters: Any,
    rng: jax.Array,
  ) -> tuple[Any, Fixed]:
    if hyperparameters:
      raise ValueError(
        f'hyperparameters={hyperparameters!r}: hyperparameters must be None, '
        'as rivals run under the self-tuning ruleset, with their own.'
      )
    has_axis = workload_facts.has_device_axis(workload, model_params)
    devices = PmapDevices() if has_axis else Devices()
    factor = BUDGET_2024 if has_axis else BUDGET
    optimizer = rival.optimizer(workload.step_hint, factor)
    has_statistics = bool(jax.tree_util.tree_leaves(model_state))
    fixed = Fixed(
      step=devices.compile_step(
        _step_fn(rival, workload, optimizer, has_statistics)
      ),
      devices=devices,
      budget_sec=factor * getattr(workload, 'max_allowed_runtime_sec', 0),
      progress=rival.progress,
      seen=[0],
    )

    def init(params: Any) -> Any:
      # The addition forces a copy: jit would return the very buffers that a
      # step is going to donate.
      return jax.tree_util.tree_map(lambda x: x + 0, optimizer.init(params))

    return devices.init(init, devices.place(model_params)), fixed

  return own.Submission(
    init_optimizer_state,
    _update_params,
    _prepare_for_eval,
    lambda workload, input_queue, *others: next(input_queue),
    own.get_batch_size,
  )


def _update_params(
  workload: WorkloadApi,
  current_param_container: Any,
  current_params_types: Any,
  model_state: Any,
  hyperparameters: Any,
  batch: dict[str, Any],
  loss_type: Any,
  optimizer_state: tuple[Any, Fixed],
  eval_results: EvalResults,
  global_step: int,
  rng: jax.Array,
  train_state: Any = None,
) -> tuple[tuple[Any, Fixed], Any, Any]:
  """Takes a step."""
  state, fixed = optimizer_state
  eval_results = eval_results or ()  # None if a restore has lost them
  if len(eval_results) > fixed.seen[0]:
    fixed.seen[0] = len(eval_results)
    state = _paced(fixed, state, eval_results, global_step)
  params, model_state, state, metrics = fixed.step(
    current_param_container, model_state, state, batch, rng
  )
  if global_step % 100 == 0 and workload.metrics_logger is not None:
    loss, grad_norm = map(float, fixed.devices.get(metrics))
    workload.metrics_logger.append_scalar_metrics(
      {'loss': loss, 'grad_norm': grad_norm}, global_step
    )
  return (state, fixed), params, model_state


def _paced(
  fixed: Fixed, state: Any, eval_results: EvalResults, global_step: int
) -> Any:
  """The state, told the share of the budget that a step takes on average."""
  step, results = decode(eval_results[-1])
  seconds = float(results.get('accumulated_submission_time', 0.0))
  if step < 1 or seconds <= 0.0 or fixed.budget_sec <= 0.0:
    return state
  pace = seconds / step / fixed.budget_sec
  now = (np.float32(global_step * pace), np.float32(pace))
  return fixed.progress(state, *fixed.devices.put(now))


def _prepare_for_eval(
  *,
  optimizer_state: tuple[Any, Fixed],
  current_param_container: Any,
  model_state: Any,
  **unused: Any,
) -> tuple[tuple[Any, Fixed], Any, Any]:
  """Nothing changes: the runner already holds the evaluated model."""
  return optimizer_state, current_param_container, model_state

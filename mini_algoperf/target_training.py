"""Plain AdamW with warm-up and cosine decay, the run behind a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Union

import jax
import optax
from tqdm import tqdm

from . import spec
from .workloads import MiniWorkload

WARMUP_SHARE = 0.05
BETA2 = 0.999


class Point(NamedTuple):
  """One choice of AdamW's hyperparameters; beta2 is fixed."""

  learning_rate: float
  one_minus_beta1: float
  weight_decay: float


class Result(NamedTuple):
  """The target metric after a run's last step."""

  validation: float
  test: float


class TrainedState(NamedTuple):
  """What a step moves forward."""

  params: spec.ParameterContainer
  model_state: spec.ModelAuxiliaryState
  optimizer_state: optax.OptState


Step = Callable[
  [TrainedState, spec.Batch, spec.RandomState, Point, Union[int, jax.Array]],
  TrainedState,
]


def make_train_step(workload: MiniWorkload, num_steps: int) -> Step:
  """A compiled AdamW step in which the hyperparameters are traced values.

  Args:
    workload: of the jit generation.
    num_steps: length of the learning rate's warm-up and decay.

  Returns:
    step(state, batch, rng, point, count) -> state.
  """
  # Of height 1, to be multiplied by the traced rate.
  shape = optax.warmup_cosine_decay_schedule(
    0.0, 1.0, max(int(WARMUP_SHARE * num_steps), 1), num_steps
  )
  loss_fn = _make_loss_fn(workload)

  @jax.jit
  def step(
    state: TrainedState,
    batch: spec.Batch,
    rng: spec.RandomState,
    point: Point,
    count: jax.Array,
  ) -> TrainedState:
    params, model_state, optimizer_state = state
    gradient, model_state = jax.grad(loss_fn, has_aux=True)(
      params, model_state, batch, jax.random.fold_in(rng, count)
    )
    updates, optimizer_state = _adamw(point, shape(count)).update(
      gradient, optimizer_state, params
    )
    params = optax.apply_updates(params, updates)
    return TrainedState(params, model_state, optimizer_state)

  return step


def _make_loss_fn(workload: MiniWorkload) -> Callable:
  def loss_fn(
    params: spec.ParameterContainer,
    model_state: spec.ModelAuxiliaryState,
    batch: spec.Batch,
    rng: spec.RandomState,
  ) -> tuple[jax.Array, spec.ModelAuxiliaryState]:
    logits, model_state = workload.model_fn(
      params, batch, model_state, spec.ForwardPassMode.TRAIN, rng, True
    )
    loss = workload.loss_fn(batch['targets'], logits, batch.get('weights'))
    return loss['summed'] / loss['n_valid_examples'], model_state

  return loss_fn


def _adamw(
  point: Point, factor: float | jax.Array
) -> optax.GradientTransformation:
  return optax.adamw(
    point.learning_rate * factor,
    b1=1.0 - point.one_minus_beta1,
    b2=BETA2,
    weight_decay=point.weight_decay,
  )


class Trainer:
  """Trains one workload again and again, compiled once."""

  def __init__(
    self, workload: MiniWorkload, num_steps: int, data_dir: str | None
  ) -> None:
    self._workload = workload
    self._num_steps = num_steps
    self._data_dir = data_dir
    self._step = make_train_step(workload, num_steps)

  def __call__(self, point: Point, seed: int, bar: tqdm) -> Result:
    """Trains from scratch and evaluates once, at the end."""
    return self._evaluate(self.train(point, seed, bar.update))

  def train(
    self, point: Point, seed: int, on_step: Callable[[], object] = lambda: None
  ) -> TrainedState:
    """Trains from scratch; on_step is called after every step."""
    init_rng, data_rng, step_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
    params, model_state = self._workload.init_model_fn(init_rng)
    state = TrainedState(params, model_state, _adamw(point, 0.0).init(params))
    queue = self._workload._build_input_queue(
      data_rng, 'train', self._data_dir, self._workload.default_batch_size
    )
    for count in range(self._num_steps):
      state = self._step(state, next(queue), step_rng, point, count)
      on_step()
    return state

  def _evaluate(self, state: TrainedState) -> Result:
    workload = self._workload
    metrics = workload.eval_model(
      global_batch_size=workload.eval_batch_size,
      params=state.params,
      model_state=state.model_state,
      rng=None,
      data_dir=self._data_dir,
      imagenet_v2_data_dir=None,
      global_step=self._num_steps,
    )
    name = workload.target_metric_name
    return Result(metrics[f'validation/{name}'], metrics[f'test/{name}'])

"""A benchmark in small: spec, a workload of two arrays, and the runner's loop.

This module plays the part of the benchmark's spec module.
"""

from __future__ import annotations

import enum
import functools

import flax
import jax
import jax.numpy as jnp
import numpy as np

NUM_INPUTS, NUM_OUTPUTS = 6, 2
BATCH_SIZE = 16
# Steps that may be under way. On a busy machine hundreds of them starve the
# virtual devices, and XLA ends the process after 40 s.
STEPS_IN_FLIGHT = 8


class ForwardPassMode(enum.Enum):
  TRAIN = 0
  EVAL = 1


class ShapeTuple:
  def __init__(self, shape_tuple):
    self.shape_tuple = shape_tuple


class TrainingCompleteError(Exception):
  pass


class Workload:
  """The base class by which a submission finds this module."""


class Logger:
  """The benchmark's metrics logger; it keeps what it is told."""

  def __init__(self, folder):
    self._csv_path = str(folder / 'measurements.csv')
    self.logged = {}

  def append_scalar_metrics(self, metrics, global_step):
    self.logged[global_step] = metrics


class TinyWorkload(Workload):
  """Least squares; batch statistics are a running mean of the inputs.

  Metric `accuracy` rises; tests script what evaluations return.
  """

  target_metric_name = 'accuracy'
  validation_target_value = 0.8
  step_hint = 6
  num_train_examples = 256  # 16 steps an epoch
  max_allowed_runtime_sec = 100
  generation = 'jit'
  metrics_logger = None

  def __init__(self, step_hint=6):
    self.step_hint = step_hint
    self.dropout_of_model = None

  def has_reached_validation_target(self, eval_result):
    return eval_result['validation/accuracy'] > self.validation_target_value

  def _init(self, rng):
    kernel = jax.random.normal(rng, (NUM_INPUTS, NUM_OUTPUTS))
    params = {'kernel': kernel, 'bias': jnp.zeros(NUM_OUTPUTS)}
    stats = {'mean': jax.random.normal(rng, (NUM_INPUTS,))}
    self.param_shapes = jax.tree_util.tree_map(
      lambda x: ShapeTuple(x.shape), params
    )
    return params, stats

  def init_model_fn(self, rng):
    return self._init(rng)

  def model_fn(
    self, params, batch, state, mode, rng, update_batch_norm, dropout_rate=0.0
  ):
    assert mode == ForwardPassMode.TRAIN
    inputs = batch['inputs']
    logits = inputs @ params['kernel'] + params['bias'][None]
    mean = self._mean_over_devices(inputs.mean(0))
    new_state = {'mean': 0.9 * state['mean'] + 0.1 * mean}
    return logits, new_state

  def _mean_over_devices(self, mean):
    return mean

  def loss_fn(
    self, label_batch, logits_batch, mask_batch=None, label_smoothing=0.0
  ):
    losses = jnp.square(logits_batch - (1 - label_smoothing) * label_batch)
    losses = losses.sum(-1)
    if mask_batch is None:
      mask_batch = jnp.ones(losses.shape)
    losses = losses * mask_batch
    return {
      'summed': losses.sum(),
      'n_valid_examples': mask_batch.sum(),
      'per_example': losses,
    }


class PmapTinyWorkload(TinyWorkload):
  """The same with a leading device axis, as in v0.5.0."""

  generation = 'pmap'

  def init_model_fn(self, rng, dropout_rate=None, aux_dropout_rate=None):
    self.dropout_of_model = dropout_rate
    return flax.jax_utils.replicate(self._init(rng))

  def model_fn(self, params, batch, state, mode, rng, update_batch_norm):
    return super().model_fn(params, batch, state, mode, rng, update_batch_norm)

  def _mean_over_devices(self, mean):
    return jax.lax.pmean(mean, 'batch')


WORKLOADS = {'jit': TinyWorkload, 'pmap': PmapTinyWorkload}


@functools.cache
def _true_kernel():
  return np.random.default_rng(7).normal(size=(NUM_INPUTS, NUM_OUTPUTS))


def batch_of_step(step: int, generation: str) -> dict[str, np.ndarray]:
  """The batch of a step, the same in both generations up to its shape."""
  rng = np.random.default_rng(step)
  inputs = rng.normal(size=(BATCH_SIZE, NUM_INPUTS))
  weights = np.ones(BATCH_SIZE)
  weights[: step % 3] = 0  # examples that do not count, unevenly spread
  batch = {
    'inputs': inputs,
    'targets': inputs @ _true_kernel(),
    'weights': weights,
  }
  lead = (jax.local_device_count(), -1) if generation == 'pmap' else (-1,)
  return {
    key: value.astype(np.float32).reshape(*lead, *value.shape[1:])
    for key, value in batch.items()
  }


def begin(submission, workload, seed=0):
  """What a run begins with: optimizer_state, params and model_state."""
  params, model_state = workload.init_model_fn(jax.random.PRNGKey(seed))
  optimizer_state = submission.init_optimizer_state(
    workload, params, model_state, None, jax.random.PRNGKey(seed + 1)
  )
  return optimizer_state, params, model_state


class Driver:
  """The benchmark's loop, with evaluations as the test scripts them.

  Args:
    submission: the benchmark's functions.
    workload: a TinyWorkload.
    start: what `begin` returns; None calls it.
    evaluations: step -> (validation loss, accuracy) or, with the time that has
      been used, (validation loss, accuracy, seconds), after that many steps.
  """

  def __init__(self, submission, workload, evaluations, start=None, seed=0):
    self.submission, self.workload = submission, workload
    self.evaluations = dict(evaluations)
    self.optimizer_state, self.params, self.model_state = start or begin(
      submission, workload, seed
    )
    self.eval_results = []
    self.global_step = 0
    self.rng = jax.random.PRNGKey(seed + 2)

  def _call(self, function, **arguments):
    self.optimizer_state, self.params, self.model_state = function(
      workload=self.workload,
      current_param_container=self.params,
      current_params_types=None,
      model_state=self.model_state,
      hyperparameters=None,
      loss_type=None,
      optimizer_state=self.optimizer_state,
      eval_results=self.eval_results,
      global_step=self.global_step,
      rng=self.rng,
      **arguments,
    )

  def step(self):
    """One train step and, where one is scripted, the evaluation after it."""
    batch = batch_of_step(self.global_step, self.workload.generation)
    self._call(self.submission.update_params, batch=batch)
    self.global_step += 1
    if self.global_step % STEPS_IN_FLIGHT == 0:
      jax.block_until_ready(self.params)
    self.evaluate()

  def evaluate(self):
    """Appends the scripted evaluation of this step, if there is one."""
    if self.global_step in self.evaluations:
      if self.workload.generation == 'jit':  # as main's runner does
        self._call(self.submission.prepare_for_eval)
      loss, accuracy, *seconds = self.evaluations[self.global_step]
      results = {'validation/loss': loss, 'validation/accuracy': accuracy}
      if seconds:
        results['accumulated_submission_time'] = seconds[0]
      entries = self.eval_results or []  # None where a restore lost them
      self.eval_results = [*entries, (self.global_step, results)]

  def run(self, until=10_000):
    """Steps until TrainingCompleteError or a step; returns whether complete."""
    while self.global_step < until:
      try:
        self.step()
      except TrainingCompleteError:
        return True
    return False

"""A workload of no time that the submission itself can train, for the runner."""

from __future__ import annotations

import jax.numpy as jnp

from helpers.fakes import FakeWorkload, write_submission

# 12 steps in three cycles, the second of which is left early or not.
SUBMISSION = """
import dataclasses

from reset_cycles.schedule_params import THESIS
from reset_cycles.submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(THESIS, budget_factor=0.4))
"""


class FittingWorkload(FakeWorkload):
  """`w` is to be the mean of the inputs, by least squares."""

  name = 'fitting'
  eval_every_steps = 3
  max_allowed_runtime_sec = 10_000  # the steps end a run, however busy it is

  def __init__(self, generation='jit', **kwargs):
    super().__init__(generation, accuracy=lambda step: step / 20, **kwargs)

  def _build_input_queue(self, *args, **kwargs):
    for batch in super()._build_input_queue(*args, **kwargs):
      yield {**batch, 'targets': batch['inputs'][..., 0]}

  def model_fn(self, params, batch, model_state, mode, rng, update_batch_norm):
    del mode, rng, update_batch_norm
    inputs = batch['inputs']
    mean = 0.9 * model_state['mean'] + 0.1 * jnp.mean(inputs, 0)
    return inputs - params['w'][None], {'mean': mean}

  def loss_fn(
    self, label_batch, logits_batch, mask_batch=None, label_smoothing=0.0
  ):
    del mask_batch, label_smoothing
    losses = jnp.sum(jnp.square(logits_batch), -1)
    count = jnp.float32(label_batch.shape[0])
    return {'summed': jnp.sum(losses), 'n_valid_examples': count}


def write_fitting_submission(folder):
  """A package with our submission; returns its path as a flag takes it."""
  path = write_submission(folder)
  with open(path, 'w') as file:
    file.write(SUBMISSION)
  return path

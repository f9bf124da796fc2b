"""20 steps of the submission on `digits` with a soft reset in between.

As a script: twenty_steps.py FOLDER, writes what both generations end with.
"""

from __future__ import annotations

import dataclasses
import sys

import jax
import numpy as np

from reset_cycles import submission
from reset_cycles.mini_algoperf import workloads
from reset_cycles.schedule_params import THESIS
from reset_cycles.settings.hparams import Hparams
from tiny import STEPS_IN_FLIGHT

# Ten steps per cycle; without dropout, whose masks depend on the layout.
PARAMS = dataclasses.replace(
  THESIS,
  warmups=('linear', 'linear'),
  decays=('cosine', 'cosine'),
  alter_lr=(0.0, 0.0),
  alter_warmup=(0.0, 0.0),
  lengths=(1.0, 1.0),
  hparams=Hparams(dropout_rate=0.0, warmup_factor=0.2),
)


def train(generation: str):
  """(params, model_state) on the devices, and the share that was replaced."""
  workload = workloads.get_workload('digits', generation=generation)
  type(workload).step_hint = 10
  functions = submission.make_submission(PARAMS)
  keys = jax.random.split(jax.random.PRNGKey(0), 4)
  if generation == 'pmap':
    params, model_state = workload.init_model_fn(keys[0], dropout_rate=0.0)
  else:
    params, model_state = workload.init_model_fn(keys[0])
  state = functions.init_optimizer_state(
    workload, params, model_state, None, keys[1]
  )
  queue = workload._build_input_queue(keys[2], 'train', None, 64)
  # An error rate that makes tau about a half.
  target = workload.validation_target_value
  results = {
    1: {'validation/loss': 2.3, 'validation/error_rate': 0.9},
    9: {'validation/loss': 2.0, 'validation/error_rate': (0.9 * target) ** 0.5},
  }
  eval_results = []
  for step in range(20):
    if step in results:
      eval_results.append((step, results[step]))
    state, params, model_state = functions.update_params(
      workload=workload,
      current_param_container=params,
      current_params_types=None,
      model_state=model_state,
      hyperparameters=None,
      batch=next(queue),
      loss_type=None,
      optimizer_state=state,
      eval_results=eval_results,
      global_step=step,
      rng=keys[3],
    )
    if step % STEPS_IN_FLIGHT == 0:
      jax.block_until_ready(params)
  assert state[1].control.cycle == 1
  return (params, model_state), state[1].setup.devices


def main(folder: str) -> None:
  for generation in ('jit', 'pmap'):
    model, devices = train(generation)
    leaves = jax.tree_util.tree_leaves(devices.get(model))
    np.savez(f'{folder}/{generation}.npz', *leaves)


if __name__ == '__main__':
  main(*sys.argv[1:])

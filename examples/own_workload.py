"""A workload of your own: two moons, a dense network, the error rate.

  reset-cycles set-targets --workload=examples/own_workload.py:Moons
  reset-cycles run --workload=examples/own_workload.py:Moons

The first command tunes AdamW and writes own_workload_targets.json next to this
file; the second trains with soft resets until those targets are reached.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from reset_cycles.mini_algoperf.workloads import ArrayWorkload


class Net(nn.Module):
  @nn.compact
  def __call__(self, inputs: jax.Array, how: Any) -> jax.Array:
    # how.train, how.update_batch_norm and how.dropout_rate have no part in
    # this.
    x = nn.relu(nn.Dense(32, name='hidden')(inputs))
    return nn.Dense(2, name='output')(x)


class Moons(ArrayWorkload):
  name = 'moons'
  target_metric_name, metric_rises = 'error_rate', False
  num_train_examples = num_eval_train_examples = 512
  num_validation_examples = num_test_examples = 1024
  default_batch_size, eval_batch_size = 32, 1024
  step_hint, eval_every_steps = 400, 20
  # Seconds: the budget and, for --eval_by=time, between evaluations.
  max_allowed_runtime_sec, eval_period_time_sec = 60, 1

  def load_split(
    self, split: str, data_dir: str | None
  ) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(['train', 'validation', 'test'].index(split))
    targets = rng.integers(0, 2, 512 if split == 'train' else 1024)
    angles = np.pi * rng.random(len(targets))
    sign = 1 - 2 * targets  # the second moon is upside down
    x, y = sign * np.cos(angles) + targets, sign * np.sin(angles) + targets / 2
    inputs = np.stack([x, y], axis=1) + 0.3 * rng.standard_normal((len(x), 2))
    return {
      'inputs': inputs.astype(np.float32),
      'targets': targets.astype(np.int32),
    }

  def _make_model(self) -> nn.Module:
    return Net()

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros((1, 2))

  # Values per example, of one batch; the metric is their mean.
  def _eval_outputs(
    self, logits: jax.Array, batch: dict[str, jax.Array]
  ) -> dict[str, jax.Array]:
    wrong = jnp.argmax(logits, axis=-1) != batch['targets']
    outputs = super()._eval_outputs(logits, batch)  # the loss, and weights
    return {**outputs, 'error_rate': wrong * batch['weights']}

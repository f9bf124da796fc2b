"""Muon: orthogonalised momentum for matrices, NadamW for the rest.

  m <- b m + (1 - b) g
  W <- W - rate (max(1, sqrt(columns / rows)) U V^T + decay W),   m = U S V^T

An array of several axes is a matrix with the first one's length as rows; one
with "embed" in its name is none. One cosine over step_hint, no warm-up, no
dropout.

Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
networks". Hyperparameters, and which arrays are matrices: the official entry
muon (JAX). The code is ours, and was not run beside the entry's.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import optax
from jax.tree_util import keystr, tree_map, tree_map_with_path

from ....optimizers.momentum import NadamW
from ....optimizers.orthogonal import orthogonalised
from ....optimizers.step import Step
from . import common

LEARNING_RATE = 0.0001357495179
MULTIPLE = 28.61130298  # of the rate, that steps of matrices have
BETA, MATRIX_DECAY = 0.9560745273, 0.02397563985
REST = NadamW(one_minus_beta1=1 - 0.96586744, beta2=0.8629173173)
REST_DECAY = 0.01275028385


def turned(m: jax.Array) -> jax.Array:
  """The orthogonalised momentum, scaled by its shape."""
  matrix = m.reshape(len(m), -1)
  rows, columns = matrix.shape
  scale = math.sqrt(max(1.0, columns / rows))
  return scale * orthogonalised(matrix[None])[0].reshape(m.shape)


def kinds(params: Any) -> Any:
  """Of each array, whether it is a matrix or the rest."""

  def kind(path: Any, leaf: Any) -> str:
    is_table = 'embed' in keystr(path).lower()
    return 'matrix' if leaf.ndim > 1 and not is_table else 'rest'

  return tree_map_with_path(kind, params)


def optimizer(step_hint: int, budget: float) -> optax.GradientTransformation:
  """Muon under the entry's cosine."""
  rate = optax.cosine_decay_schedule(LEARNING_RATE, max(step_hint, 1))
  matrices = optax.chain(
    optax.ema(BETA, debias=False),
    optax.stateless(lambda updates, params: tree_map(turned, updates)),
    optax.add_decayed_weights(MATRIX_DECAY),
    optax.scale(MULTIPLE),
  )
  rest = optax.chain(
    REST.direction(Step(1.0)), optax.add_decayed_weights(REST_DECAY)
  )
  return optax.chain(
    optax.multi_transform({'matrix': matrices, 'rest': rest}, kinds),
    optax.scale_by_schedule(lambda count: -rate(count)),
  )


(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = common.submission_of(common.Rival(optimizer, dropout_rate=0.0))

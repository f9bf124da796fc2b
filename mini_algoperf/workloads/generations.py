"""The two generations of the benchmark's device handling, as mixins.

`jit` is the current one: `jax.jit` over a mesh, dropout an argument of
`model_fn`, no device axis. `pmap` is that of 2024: a leading device axis on
everything, dropout fixed by `init_model_fn`. A workload's class is joined with
one of them when it is constructed (`base.MiniWorkload`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.jax_utils
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..spec import (
  Batch,
  ForwardPassMode,
  ModelAuxiliaryState,
  ParameterContainer,
  RandomState,
  Tensor,
)

DROPOUT_RATE = 0.1
# Under pmap every baseline of the benchmark calls its axis this.
BATCH_AXIS = 'batch'


def _sharding(*axes: str) -> NamedSharding:
  return NamedSharding(
    Mesh(np.array(jax.devices()), (BATCH_AXIS,)), PartitionSpec(*axes)
  )


class JitGeneration:
  """`jax.jit` + `NamedSharding`: batches `(B, ...)`, replicated parameters."""

  generation = 'jit'
  _axis_name = None
  host_batches: bool
  _init_model: Callable[..., tuple[ParameterContainer, ModelAuxiliaryState]]
  _apply: Callable[..., tuple[Tensor, ModelAuxiliaryState]]
  _merge_shards: Callable[[Batch], Batch]

  def init_model_fn(
    self, rng: RandomState
  ) -> tuple[ParameterContainer, ModelAuxiliaryState]:
    """Fresh parameters and model state, replicated over all devices."""
    model = self._init_model(rng, DROPOUT_RATE)
    params, model_state = jax.device_put(model, _sharding())
    return params, model_state

  def model_fn(
    self,
    params: ParameterContainer,
    augmented_and_preprocessed_input_batch: Batch,
    model_state: ModelAuxiliaryState,
    mode: ForwardPassMode,
    rng: RandomState,
    update_batch_norm: bool,
    dropout_rate: float = DROPOUT_RATE,
  ) -> tuple[Tensor, ModelAuxiliaryState]:
    """The logits of a batch and the new model state.

    Args:
      params: tree of arrays.
      augmented_and_preprocessed_input_batch: 'inputs', and what else there is.
      model_state: batch statistics or None.
      mode: dropout acts in TRAIN only.
      rng: key of the dropout masks; unused in EVAL.
      update_batch_norm: normalise by the batch and move the running
        statistics; else normalise by the running statistics.
      dropout_rate: share of activations that is dropped.
    """
    batch = augmented_and_preprocessed_input_batch
    return self._apply(
      params, batch, model_state, mode, rng, update_batch_norm, dropout_rate
    )

  def _compile_eval(self, eval_fn: Callable[..., Any]) -> Any:
    return jax.jit(eval_fn)

  def _train_layout(self, batch: Batch) -> Any:
    merged = self._merge_shards(batch)
    return merged if self.host_batches else self._on_devices(merged)

  def _eval_layout(self, batch: Batch) -> Any:
    return self._on_devices(self._merge_shards(batch))

  def _on_devices(self, batch: Batch) -> Any:
    return jax.device_put(batch, _sharding(BATCH_AXIS))

  def _to_host(self, outputs: Any) -> Any:
    return jax.device_get(outputs)


class PmapGeneration:
  """`jax.pmap`: batches `(devices, B/devices, ...)`, a device axis on all."""

  generation = 'pmap'
  _axis_name = BATCH_AXIS
  _model: Any
  _init_model: Callable[..., tuple[ParameterContainer, ModelAuxiliaryState]]
  _apply: Callable[..., tuple[Tensor, ModelAuxiliaryState]]

  def init_model_fn(
    self,
    rng: RandomState,
    dropout_rate: float | None = None,
    aux_dropout_rate: float | None = None,
  ) -> tuple[ParameterContainer, ModelAuxiliaryState]:
    """Fresh parameters and model state with a leading device axis.

    Args:
      rng: key of the initialisation.
      dropout_rate: kept on the workload for `model_fn`; None is the default.
      aux_dropout_rate: unused; it is in the benchmark's signature.
    """
    del aux_dropout_rate
    rate = DROPOUT_RATE if dropout_rate is None else dropout_rate
    model = self._init_model(rng, rate)
    params, model_state = flax.jax_utils.replicate(model)
    return params, model_state

  def model_fn(
    self,
    params: ParameterContainer,
    augmented_and_preprocessed_input_batch: Batch,
    model_state: ModelAuxiliaryState,
    mode: ForwardPassMode,
    rng: RandomState,
    update_batch_norm: bool,
  ) -> tuple[Tensor, ModelAuxiliaryState]:
    """As in the jit generation; dropout is that of the last initialisation."""
    batch = augmented_and_preprocessed_input_batch
    rate = self._model.dropout_rate
    return self._apply(
      params, batch, model_state, mode, rng, update_batch_norm, rate
    )

  def _compile_eval(self, eval_fn: Callable[..., Any]) -> Any:
    return jax.pmap(eval_fn, axis_name=BATCH_AXIS)

  def _train_layout(self, batch: Batch) -> Batch:
    return batch

  def _eval_layout(self, batch: Batch) -> Batch:
    return batch

  def _to_host(self, outputs: Any) -> Any:
    return jax.tree_util.tree_map(
      lambda x: x.reshape(-1, *x.shape[2:]), jax.device_get(outputs)
    )


GENERATIONS = {'jit': JitGeneration, 'pmap': PmapGeneration}

"""A workload whose splits are arrays: what is left is a model and a metric."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator, Mapping

import numpy as np

from .. import spec
from .base import MiniWorkload
from .losses import softmax_cross_entropy
from .shuffling import shuffled_indices


class ArrayWorkload(MiniWorkload):
  """Examples in memory, shuffled in training; softmax cross-entropy.

  A subclass says what `MiniWorkload` leaves open but for the batches, and
  `load_split`.
  """

  loss_type = spec.LossType.SOFTMAX_CROSS_ENTROPY

  @property
  def train_mean(self) -> float:
    """Not defined here, as for the benchmark's text workloads."""
    raise NotImplementedError

  @property
  def train_stddev(self) -> float:
    """Not defined here, as for the benchmark's text workloads."""
    raise NotImplementedError

  @abc.abstractmethod
  def load_split(
    self, split: str, data_dir: str | None
  ) -> Mapping[str, np.ndarray]:
    """All examples of a split, in their fixed order; called once per split.

    Args:
      split: 'train', 'validation' or 'test'. The training examples that are
        evaluated are the first of 'train'.
      data_dir: where the data lie; None for the default.

    Returns:
      'inputs' and 'targets', leading axis: examples.
    """

  def loss_fn(
    self,
    label_batch: spec.Tensor,
    logits_batch: spec.Tensor,
    mask_batch: spec.Tensor | None = None,
    label_smoothing: float = 0.0,
  ) -> dict[str, spec.Tensor]:
    """`losses.softmax_cross_entropy`; a subclass may have another loss."""
    return softmax_cross_entropy(
      label_batch, logits_batch, mask_batch, label_smoothing
    )

  @functools.cache  # noqa: B019, workloads are few
  def _split(
    self, split: str, data_dir: str | None
  ) -> Mapping[str, np.ndarray]:
    arrays = self.load_split(split, data_dir)
    wanted = {
      'train': max(self.num_train_examples, self.num_eval_train_examples),
      'validation': self.num_validation_examples,
      'test': self.num_test_examples,
    }[split]
    for key, value in arrays.items():
      if len(value) < wanted:
        raise ValueError(
          f'workload: {self.name}: load_split({split!r}) gives {len(value)} '
          f'{key}, fewer than the {wanted} examples that the class names.'
        )
    return arrays

  def _train_batches(
    self,
    rng: np.random.Generator,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    arrays = self._split('train', data_dir)
    indices = shuffled_indices(rng, self.num_train_examples)
    while True:
      chosen = np.fromiter(indices, np.int64, shard_size * num_shards)
      yield {
        key: value[chosen].reshape(num_shards, shard_size, *value.shape[1:])
        for key, value in arrays.items()
      }

  def _split_batches(
    self,
    split: str,
    num_examples: int,
    data_dir: str | None,
    shard_size: int,
    num_shards: int,
  ) -> Iterator[spec.Batch]:
    arrays = self._split('train' if split == 'eval_train' else split, data_dir)
    size = shard_size * num_shards
    for start in range(0, num_examples, size):
      stop = min(start + size, num_examples)
      pad = size - (stop - start)
      batch = {key: value[start:stop] for key, value in arrays.items()}
      batch['weights'] = np.ones(batch['targets'].shape, np.float32)
      yield {
        key: np.pad(value, [(0, pad), *[(0, 0)] * (value.ndim - 1)]).reshape(
          num_shards, shard_size, *value.shape[1:]
        )
        for key, value in batch.items()
      }

"""Workloads whose examples are arrays in memory, and how they are split."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from .. import spec
from . import parts
from .base import BatchShape, MiniWorkload

SPLIT_SIZES = {'train': 1536, 'validation': 256, 'test': 256}


class ArrayWorkload(MiniWorkload):
  """Examples in memory, shuffled in training; softmax cross-entropy.

  A subclass gives the methods that `MiniWorkload` asks for, with `load_split`
  in the place of batches.
  """

  loss_type = spec.LossType.SOFTMAX_CROSS_ENTROPY
  loss_fn = staticmethod(parts.softmax_cross_entropy)

  def __init__(self, generation: str = 'jit') -> None:
    super().__init__(generation)
    self._load_once = functools.cache(self.load_split)

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
      'inputs' and 'targets', leading axis: examples. 'weights', 1 for targets
      that count, if some don't.
    """

  def _split(
    self, split: str, data_dir: str | None, num_examples: int
  ) -> Mapping[str, np.ndarray]:
    arrays = self._load_once(split, data_dir)
    of = f'{type(self).__name__}: load_split({split!r})'
    needed = {'inputs', 'targets'}
    if not isinstance(arrays, Mapping) or not needed <= {*arrays}:
      raise ValueError(f"{of} must return arrays 'inputs' and 'targets'.")
    for key, value in arrays.items():
      if not isinstance(value, np.ndarray) or value.dtype.kind not in 'biuf':
        raise ValueError(f'{of}: {key} must be a NumPy array of numbers.')
      if value.ndim == 0 or len(value) < num_examples:
        raise ValueError(
          f'{of} gives {len(value) if value.ndim else 0} {key}, fewer than the '
          f'{num_examples} examples that the class names.'
        )
    return arrays

  def _train_batches(
    self, rng: np.random.Generator, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    arrays = self._split('train', data_dir, self.num_train_examples)
    indices = parts.shuffled_indices(rng, self.num_train_examples)
    while True:
      chosen = np.fromiter(indices, np.int64, shape[0] * shape[1])
      yield {
        key: value[chosen].reshape(*shape, *value.shape[1:])
        for key, value in arrays.items()
      }

  def _split_batches(
    self, split: str, num_examples: int, data_dir: str | None, shape: BatchShape
  ) -> Iterator[spec.Batch]:
    source = 'train' if split == 'eval_train' else split
    arrays = self._split(source, data_dir, num_examples)
    return padded_batches(arrays, num_examples, shape)


class Classification(ArrayWorkload):
  """Judged by the share of targets that are not the likeliest class."""

  target_metric_name, metric_rises = 'error_rate', False

  def _eval_outputs(
    self, logits: jax.Array, batch: spec.Batch
  ) -> dict[str, jax.Array]:
    wrong = jnp.argmax(logits, axis=-1) != batch['targets']
    outputs = super()._eval_outputs(logits, batch)
    return {**outputs, 'error_rate': wrong * batch['weights']}


class SplitWorkload(ArrayWorkload):
  """Examples that are made at once, and split in this order.

  A subclass has `examples`, a static method that makes what `load_split`
  returns, of all splits behind one another.
  """

  examples: Callable[[], Mapping[str, np.ndarray]]
  split_sizes = SPLIT_SIZES
  num_train_examples, num_validation_examples, num_test_examples = (
    SPLIT_SIZES.values()
  )
  num_eval_train_examples = SPLIT_SIZES['validation']
  eval_batch_size, default_batch_size = 256, 32
  step_hint, eval_every_steps = 800, 40
  max_allowed_runtime_sec, eval_period_time_sec = 300, 2

  def load_split(
    self, split: str, data_dir: str | None
  ) -> Mapping[str, np.ndarray]:
    """A slice of the arrays that `examples` makes."""
    there = parts.split_slices(self.split_sizes)[split]
    return {key: array[there] for key, array in self.examples().items()}

  def _fake_inputs(self) -> jax.Array:
    return jnp.zeros_like(self.examples()['inputs'][:1])


def padded_batches(
  arrays: Mapping[str, np.ndarray], num_examples: int, shape: BatchShape
) -> Iterator[spec.Batch]:
  """The first examples of a split, once, in order; padding has weight 0.

  Arrays are 'targets' and others, leading axis: examples; without 'weights' all
  targets count. The shape is that of a batch's leading axes.
  """
  size = shape[0] * shape[1]
  weights = np.ones(arrays['targets'].shape, np.float32)
  for start in range(0, num_examples, size):
    stop = min(start + size, num_examples)
    pad = size - (stop - start)
    yield {
      key: np.pad(
        value[start:stop], [(0, pad), *[(0, 0)] * (value.ndim - 1)]
      ).reshape(*shape, *value.shape[1:])
      for key, value in {'weights': weights, **arrays}.items()
    }

"""The order of training examples, on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..spec import RandomState


def host_rng(data_rng: RandomState) -> np.random.Generator:
  """NumPy's generator for a JAX key, so that queues run on the host."""
  return np.random.default_rng(np.ravel(np.asarray(data_rng)).tolist())


def shuffled_indices(
  rng: np.random.Generator, num_examples: int
) -> Iterator[int]:
  """Endless indices: one fresh permutation after another."""
  while True:
    yield from rng.permutation(num_examples).tolist()

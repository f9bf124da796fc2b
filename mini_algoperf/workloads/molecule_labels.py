"""Labels of molecules: noisy votes of atom environments, with gaps.

An environment is what chemists call a circular fingerprint: an atom's kind
(radius 0), or its kind and those of its neighbours with the bonds to them
(radius 1). A task adds up a few environments' counts with small weights,
disturbs the sum and calls the highest scores positive. A network that passes
messages can learn the sum; the noise bounds what it can reach.

All arithmetic is on integers, so that the labels are the same everywhere.
"""

from __future__ import annotations

import numpy as np

NUM_TASKS = 128
MISSING_SHARE = 0.3

_VOCABULARY = 96
_VOTES = 8
_MAX_COUNT = 3
_VOTE_SCALE = 1000
_NOISE_SCALE = 1200
# Shares of positives, cycled over the tasks: rare ones as in OGB, and some
# that a small data set can learn.
_POSITIVE_SHARES = (0.04, 0.06, 0.09, 0.13, 0.19, 0.27)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def _mix(code: np.ndarray) -> np.ndarray:
  """Scatters codes over 64 bits (a multiplicative hash, wraps around)."""
  code = (code ^ (code >> np.uint64(29))) * _MULTIPLIER
  return code ^ (code >> np.uint64(32))


def environment_codes(
  kinds: np.ndarray,
  senders: np.ndarray,
  receivers: np.ndarray,
  bonds: np.ndarray,
) -> np.ndarray:
  """Codes of every atom's two environments.

  Args:
    kinds: code of each atom by itself, shape (nodes,), non-negative.
    senders: start of each directed bond, shape (edges,).
    receivers: end of each directed bond, shape (edges,).
    bonds: kind of each directed bond, shape (edges,).

  Returns:
    Shape (2, nodes), uint64; independent of the order of atoms and bonds.
  """
  radius_0 = _mix(kinds.astype(np.uint64) + np.uint64(1))
  neighbours = np.zeros_like(radius_0)
  votes = _mix(radius_0[senders] + bonds.astype(np.uint64))
  np.add.at(neighbours, receivers, votes)
  return np.stack([radius_0, _mix(radius_0 + _mix(neighbours))])


def count_environments(codes: np.ndarray, graph_of: np.ndarray) -> np.ndarray:
  """How often each molecule has each of the most frequent environments.

  Args:
    codes: shape (2, nodes), as `environment_codes` gives them.
    graph_of: index of each node's molecule, shape (nodes,), ascending.

  Returns:
    Shape (molecules, 96), int64, clipped at 3.
  """
  found, positions, frequencies = np.unique(
    codes, return_inverse=True, return_counts=True
  )
  rank = np.argsort(-frequencies, kind='stable')
  place = np.empty(len(found), np.int64)
  place[rank] = np.arange(len(found))
  column = place[positions.reshape(codes.shape)]
  row = np.broadcast_to(graph_of, codes.shape)
  known = column < _VOCABULARY
  counts = np.zeros((graph_of[-1] + 1, _VOCABULARY), np.int64)
  np.add.at(counts, (row[known], column[known]), 1)
  return np.minimum(counts, _MAX_COUNT)


def _scores(rng: np.random.Generator, counts: np.ndarray) -> np.ndarray:
  votes = np.zeros((_VOCABULARY, NUM_TASKS), np.int64)
  for task in range(NUM_TASKS):
    chosen = rng.permutation(_VOCABULARY)[:_VOTES]
    votes[chosen, task] = rng.permutation([-2, -1, -1, 1, 1, 2, 2, 3])
  shape = (3, len(counts), NUM_TASKS)
  noise = rng.integers(-_NOISE_SCALE, _NOISE_SCALE + 1, size=shape).sum(axis=0)
  return _VOTE_SCALE * (counts @ votes) + noise


def draw_labels(rng: np.random.Generator, counts: np.ndarray) -> np.ndarray:
  """Labels of all molecules.

  Args:
    rng: source of votes, noise and gaps.
    counts: shape (molecules, 96), as `count_environments` gives them.

  Returns:
    Shape (molecules, 128), float32: 0, 1 or NaN where a label is missing.
  """
  scores = _scores(rng, counts)
  shares = np.resize(_POSITIVE_SHARES, NUM_TASKS)
  positives = np.maximum((shares * len(scores)).astype(np.int64), 1)
  ordered = np.sort(scores, axis=0)
  thresholds = ordered[len(scores) - positives, np.arange(NUM_TASKS)]
  labels = (scores >= thresholds).astype(np.float32)
  labels[rng.random(labels.shape) < MISSING_SHARE] = np.nan
  return labels

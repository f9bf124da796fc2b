"""Checks on the host that a reset was done as planned; cheap enough to stay on.

A reset returns at most 64 elements of every leaf, before and after, from every
device. Here the formulas are recomputed from those, in float64.

Source: thesis, figure 3.2 (model_reinit_schedule tests what it did).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Elements of each leaf that are checked against the formula on the host.
_SAMPLE = 64
# Rounding that a check allows: three operations, with headroom.
_ULPS = 8

Leaf = jax.Array | np.ndarray


class Sample(NamedTuple):
  """Elements of a leaf around a reset; of a replica each, if there are any."""

  before: np.ndarray
  after: np.ndarray


def sample(leaf: Leaf) -> Leaf:
  """At most 64 elements of a leaf, evenly spread.

  They are taken by index: flattening a leaf that is sharded over devices would
  gather all of it.
  """
  if not leaf.size or not leaf.shape:
    return leaf.reshape(-1)
  stride = max(1, -(-leaf.size // _SAMPLE))
  return leaf[np.unravel_index(np.arange(0, leaf.size, stride), leaf.shape)]


def _check_close(
  what: str, new: np.ndarray, expected: np.ndarray, *terms: np.ndarray
) -> None:
  info = jnp.finfo(new.dtype)  # type: ignore[no-untyped-call]
  # XLA flushes subnormal numbers to zero, and the moments of parameters without
  # a gradient become subnormal.
  size = sum(np.abs(term) for term in terms)
  allowed = _ULPS * float(info.eps) * size + float(info.tiny)
  off = np.abs(new.astype(np.float64) - expected)
  wrong = ~((off <= allowed) | (new == expected))
  if np.any(wrong):
    raise RuntimeError(
      f'A reset went wrong: {what} are off by up to {np.max(off[wrong])}.'
    )


def check_blend(
  what: str,
  samples: list[Sample],
  fresh_leaves: list[np.ndarray],
  share: float,
) -> None:
  """Checks that a blend follows the formula and changed what it should.

  Args:
    what: what is blended, for the message.
    samples: of each leaf.
    fresh_leaves: the fresh leaves, whole.
    share: share of the fresh values.

  Raises:
    RuntimeError: if it does not follow the formula, or changed nothing.
  """
  changed = should_change = False
  for (old, new), fresh_leaf in zip(samples, fresh_leaves):
    if not jnp.issubdtype(old.dtype, jnp.inexact):
      continue
    fresh = np.broadcast_to(sample(fresh_leaf), old.shape).astype(np.float64)
    kept = np.where(np.isfinite(old), old.astype(np.float64), 0)
    take_fresh = (share >= 1) | ~np.isfinite(old)
    expected = np.where(take_fresh, fresh, (1 - share) * kept + share * fresh)
    _check_close(what, new, expected, kept, fresh)
    changed |= bool(np.any(new != old))
    # A change within the rounding of the blend could be invisible.
    eps = float(jnp.finfo(new.dtype).eps)  # type: ignore[no-untyped-call]
    visible = 2 * eps * np.abs(kept)
    should_change |= bool(np.any(np.abs(expected - kept) > visible))
  if should_change and not changed:
    raise RuntimeError(f'A reset went wrong: no element of the {what} changed.')


def check_moments(samples: list[Sample], keep: float) -> None:
  """Checks that moments are `keep` times the old ones, 0 where not finite.

  Raises:
    RuntimeError: if they are not.
  """
  for old, new in samples:
    kept = np.where(np.isfinite(old), old.astype(np.float64), 0)
    _check_close('moments', new, keep * kept, kept)

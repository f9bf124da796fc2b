"""Checks on the host that a reset was done as planned; cheap enough to stay on.

A reset returns at most 64 elements of every leaf, before and after, from every
device. Here the formulas are recomputed from those, in float64.

Source: thesis, figure 3.2 (model_reinit_schedule tests what it did).
"""

from __future__ import annotations

from collections.abc import Sequence
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


def check(
  what: str,
  samples: Sequence[Sample],
  keep: float,
  share: float = 0.0,
  fresh: Sequence[np.ndarray] = (),
) -> None:
  """Checks that leaves are keep * old + share * fresh, and have changed.

  Elements that were not finite have become fresh, or 0 without a fresh leaf.

  Args:
    what: what was reset, for the message.
    samples: of each leaf.
    keep, share: the factors.
    fresh: the fresh leaves, whole; none for zeros.

  Raises:
    RuntimeError: if an element is off by more than rounding, or none changed.
  """
  changed = should_change = False
  for i, (old, new) in enumerate(samples):
    if not jnp.issubdtype(old.dtype, jnp.inexact):
      continue
    info = jnp.finfo(new.dtype)  # type: ignore[no-untyped-call]
    eps, tiny = float(info.eps), float(info.tiny)
    fresh_part = sample(fresh[i]).astype(np.float64) if fresh else np.float64(0)
    kept = np.where(np.isfinite(old), old.astype(np.float64), 0)
    take_fresh = (keep <= 0) | ~np.isfinite(old)
    expected = keep * kept + share * fresh_part
    expected = np.where(take_fresh, fresh_part, expected)
    # XLA flushes subnormal numbers to zero, and the moments of parameters
    # without a gradient become subnormal.
    allowed = _ULPS * eps * (np.abs(kept) + np.abs(fresh_part)) + tiny
    off = np.abs(new.astype(np.float64) - expected)
    wrong = ~((off <= allowed) | (new == expected))
    if np.any(wrong):
      raise RuntimeError(
        f'A reset went wrong: {what} are off by up to {np.max(off[wrong])}.'
      )
    changed |= bool(np.any(new != old))
    # A change within the rounding of the reset could be invisible.
    visible = 2 * eps * np.abs(kept) + tiny
    should_change |= bool(np.any(np.abs(expected - kept) > visible))
  if should_change and not changed:
    raise RuntimeError(f'A reset went wrong: no element of the {what} changed.')

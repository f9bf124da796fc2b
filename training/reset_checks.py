"""Was a reset done as planned? Checked on the host, cheap enough to stay on.

A reset hands out at most 64 elements of every leaf, before and after, from every
device. Here the formulas are computed once more from those, in float64.

Source: thesis, figure 3.2 (model_reinit_schedule tests what it did).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

# Elements of each leaf that a reset checks against the formula on the host.
_SAMPLE = 64
# Rounding that a check allows: three operations, with headroom.
_ULPS = 8


def sample(leaf: Any) -> Any:
  """At most _SAMPLE elements of a leaf, evenly spread."""
  stride = max(1, -(-leaf.size // _SAMPLE))
  return leaf.reshape(-1)[::stride]


def sample_all(leaves: Any) -> Any:
  """`sample` of every leaf."""
  return [sample(leaf) for leaf in leaves]


def _rounding(dtype: Any, *terms: np.ndarray) -> np.ndarray:
  """What float arithmetic on these terms may be off by."""
  info = jnp.finfo(dtype)
  relative = _ULPS * float(info.eps) * sum(np.abs(t) for t in terms)
  # XLA takes numbers below the smallest normal one for zero, and Adam's moments
  # of parameters without a gradient get there.
  return relative + float(info.tiny)


def _check_close(new, expected, *terms, what: str) -> None:
  off = np.abs(new.astype(np.float64) - expected)
  allowed = _rounding(new.dtype, *terms)
  wrong = ~((off <= allowed) | (new == expected))
  if np.any(wrong):
    raise RuntimeError(
      f'A reset went wrong: {what} are off by up to {np.max(off[wrong])}.'
    )


def check_blend(samples, fresh_leaves, share: float) -> None:
  """Parameters follow the formula, and changed where it changes them."""
  changed = should_change = False
  for (old, new), fresh_leaf in zip(samples, fresh_leaves):
    if not jnp.issubdtype(old.dtype, jnp.inexact):
      continue
    fresh = np.broadcast_to(sample(fresh_leaf), old.shape).astype(np.float64)
    kept = np.where(np.isfinite(old), old.astype(np.float64), 0)
    take_fresh = (share >= 1) | ~np.isfinite(old)
    blend = (1 - share) * kept + share * fresh
    expected = np.where(take_fresh, fresh, blend)
    _check_close(new, expected, kept, fresh, what='parameters')
    changed |= bool(np.any(new != old))
    # By more than the rounding of the blend, which could hide it.
    visible = 2 * float(jnp.finfo(new.dtype).eps) * np.abs(kept)
    should_change |= bool(np.any(np.abs(expected - kept) > visible))
  if should_change and not changed:
    raise RuntimeError('A reset went wrong: no parameter changed.')


def check_moments(samples, keep: float) -> None:
  """Moments are `keep` times what they were; zero where that is not finite."""
  for old, new in samples:
    kept = np.where(np.isfinite(old), old.astype(np.float64), 0)
    _check_close(new, keep * kept, kept, what='moments')

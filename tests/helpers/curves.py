"""Learning rates as compiled programs give them, and how exact they must be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

# In half ulps, 2^-24 of a value: a share of the phase takes three roundings; the
# steepest function of it is the exponential warm-up, where ln(100) = 4.6 times
# the share's error shows; the function itself and the product with the peak
# round once more each. 3 * 4.6 + 2 < 16 half ulps of the peak.
TOLERANCE = 16 * 2.0**-24


def read(schedule, counts):
  """The schedule at all counts, compiled."""

  def rate(count):
    return jnp.asarray(schedule(count), jnp.float32)

  return np.asarray(jax.jit(jax.vmap(rate))(counts))


def assert_close(actual, expected, peak):
  np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * peak)

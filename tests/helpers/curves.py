"""Shapes as compiled programs read them, and how exact they must be."""

import jax
import jax.numpy as jnp
import numpy as np

# In half ulps, 2^-24 of a value: a share of the phase takes three roundings; the
# steepest function of it is the exponential warm-up, where ln(100) = 4.6 times
# the share's error shows; the function itself and the product with the peak
# round once more each. 3 * 4.6 + 2 < 16 half ulps of the peak.
TOLERANCE = 16 * 2.0**-24


def read(shape, steps, counts, warmup=0.0):
  """The shape at some counts of a phase of so many steps, compiled.

  Steps may be another number for each count.
  """

  def value(count, steps):
    x = jnp.clip(count / steps, 0.0, 1.0)
    return jnp.asarray(shape(x, warmup), jnp.float32)

  both = np.broadcast_arrays(np.float32(counts), np.float32(steps))
  return np.asarray(jax.jit(jnp.vectorize(value))(*both))


def assert_close(actual, expected, peak):
  np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * peak)

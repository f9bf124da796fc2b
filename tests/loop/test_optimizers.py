"""What an optimizer of a loop is told, and what it is refused for."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops

LABELS = {'hidden': 'a', 'output': 'b'}


def injected(*rates):
  """Two groups with rates of their own; optax.partition has its old name."""
  sgd = lambda rate: optax.inject_hyperparams(optax.sgd)(learning_rate=rate)
  return optax.multi_transform(dict(zip('ab', map(sgd, rates))), LABELS)


@pytest.mark.parametrize(
  ('rates', 'ratio'), [((1e-4, 1e-2), 100.0), ((0.0, 0.0), 1.0)]
)
def test_injected_rates_keep_their_ratio_to_the_first(rates, ratio):
  """At every step, whose rate is that of the cycles."""
  cycles = loops.make(optimizer=injected(*rates))
  state = loops.start(cycles)
  ones = jax.tree_util.tree_map(jnp.ones_like, state.params)
  for step in range(6):
    state, _ = cycles.before_step(step, state)
    rate = cycles.learning_rate(state)
    updates, opt = cycles.optimizer.update(ones, state.opt_state, state.params)
    state = state._replace(opt_state=opt)
    np.testing.assert_allclose(updates['hidden']['bias'], -rate, rtol=1e-6)
    kernel = updates['output']['kernel']
    np.testing.assert_allclose(kernel, -rate * ratio, rtol=1e-5)


def test_a_ratio_to_0_is_refused():
  said = 'rates are 0, 0.01: the others keep their ratio to the first one'
  with pytest.raises(ValueError, match=said):
    loops.make(optimizer=injected(0.0, 0.01))

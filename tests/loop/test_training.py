"""How an optimizer of a loop is built, and what it is refused for."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import loops
from helpers.trees import assert_close, host
from reset_cycles.optimizers.adamw import AdamW

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


class Summing(NamedTuple):
  m: Any
  total: Any


class Declaring(AdamW):
  """Its first moments are traced to the parameters, and its total is no tree."""

  moments = ('m',)
  iterates = ('total',)

  def build(self, step):
    zero = lambda params: jax.tree_util.tree_map(lambda x: 0 * x, params)
    grow = lambda grads, state, params: (
      jax.tree_util.tree_map(lambda g: -step.rate * g, grads),
      Summing(jax.tree_util.tree_map(jnp.add, state.m, grads), state.total + 1),
    )
    init = lambda params: Summing(zero(params), jnp.float32(0))
    return optax.GradientTransformation(init, grow)


def test_what_an_optimizer_declares_is_what_a_reset_does():
  """tau is .5, alpha .5."""
  chain = dataclasses.replace(loops.CHAIN, optimizer=Declaring())
  cycles = loops.make(chain)
  state, _ = loops.train(cycles, loops.start(cycles), {}, 0, 4)
  before = host(state.opt_state.inner)
  state, _ = cycles.after_evaluation(4, 1.0, 0.4, state)
  found = host(state.opt_state.inner)
  assert (before.total, found.total) == (4, 2)
  expected = jax.tree_util.tree_map(lambda m: 0.75 * m, before.m)
  assert_close(found.m, expected)

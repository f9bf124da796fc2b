"""Soft resets and early switching in a loop with flax.linen's TrainState.

You will see a cycle left early: the second one's peak rate is absurd, its loss
soon not finite, the network is replaced. flax_train_state.png shows the run.

  python examples/flax_train_state.py
"""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from common import History, draw, spirals
from flax.training.train_state import TrainState

from reset_cycles import THESIS, Cycles, State


class Net(nn.Module):
  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    for _ in range(2):
      x = nn.relu(nn.Dense(32)(x))
    return nn.Dense(2)(x)


def loss_fn(
  params: Any, points: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
  logits = Net().apply({'params': params}, points)
  losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return losses.mean(), (jnp.argmax(logits, axis=-1) == labels).mean()


@jax.jit
def train_step(state: TrainState, *batch: jax.Array) -> TrainState:
  gradient, _ = jax.grad(loss_fn, has_aux=True)(state.params, *batch)
  return state.apply_gradients(grads=gradient)


@jax.jit
def init(key: jax.Array) -> Any:
  return Net().init(key, jnp.zeros((1, 2)))['params']


def main(
  num_steps: int = 1500, picture: str = 'flax_train_state.png'
) -> History:
  chain = THESIS.override(
    {'learning_rate': 0.01, 'weight_decay': 0.001, 'alter_lr': (0.0, 1e13, 0.0)}
  )
  cycles = Cycles(chain, num_steps, make_params=init, target=0.99)
  params = init(jax.random.PRNGKey(1))
  state = TrainState.create(apply_fn=None, params=params, tx=cycles.optimizer)
  history = History()

  def look(what: Callable, step: int, *results: jax.Array) -> None:
    nonlocal state
    new, events = what(step, *results, State(state.params, state.opt_state))
    state = state.replace(params=new.params, opt_state=new.opt_state)
    history.saw(step, events)

  for step in range(num_steps):
    look(cycles.before_step, step)
    history.rates[step] = cycles.learning_rate(state)
    state = train_step(state, *spirals(step, count=64))
    if (step + 1) % max(num_steps // 60, 1) == 0:
      loss, accuracy = jax.jit(loss_fn)(state.params, *spirals(2**31))
      history.metrics[step + 1] = float(accuracy)
      look(cycles.after_evaluation, step + 1, loss, accuracy)
  draw(picture, [history], target=0.99)
  return history


if __name__ == '__main__':
  main()

"""Soft resets in a loop of plain JAX and optax.

You will see three learning-rate cycles. After each, a line says tau, the share
of the network that a fresh one replaces. plain_jax.png shows the run.

  python examples/plain_jax.py
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from common import History, draw, spirals

from reset_cycles import THESIS, Cycles, State

SIZES = (2, 32, 32, 2)


def init(key: jax.Array) -> Any:
  keys = jax.random.split(key, len(SIZES) - 1)
  return [
    (jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, jnp.zeros(b))
    for k, a, b in zip(keys, SIZES, SIZES[1:])
  ]


def logits(params: Any, points: jax.Array) -> jax.Array:
  for kernel, bias in params[:-1]:
    points = jax.nn.relu(points @ kernel + bias[None])
  kernel, bias = params[-1]
  return points @ kernel + bias[None]


@jax.jit
def loss_fn(
  params: Any, points: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
  outputs = logits(params, points)
  losses = optax.softmax_cross_entropy_with_integer_labels(outputs, labels)
  return losses.mean(), (jnp.argmax(outputs, axis=-1) == labels).mean()


def make_train_step(cycles: Cycles) -> Callable[..., State]:
  @jax.jit
  def train_step(state: State, points: jax.Array, labels: jax.Array) -> State:
    gradient, _ = jax.grad(loss_fn, has_aux=True)(state.params, points, labels)
    updates, opt_state = cycles.optimizer.update(
      gradient, state.opt_state, state.params
    )
    return State(optax.apply_updates(state.params, updates), opt_state)

  return train_step


def main(num_steps: int = 1500, picture: str = 'plain_jax.png') -> History:
  chain = THESIS.override({'learning_rate': 0.01, 'weight_decay': 0.001})
  cycles = Cycles(chain, num_steps, make_params=jax.jit(init), target=0.99)
  params = init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))
  train_step = make_train_step(cycles)
  history, every = History(), max(num_steps // 30, 1)
  for step in range(num_steps):
    state, events = cycles.before_step(step, state)
    history.saw(step, events, cycles.learning_rate(state))
    state = train_step(state, *spirals(step, count=64))
    if (step + 1) % every == 0:
      loss, accuracy = map(float, loss_fn(state.params, *spirals(2**31)))
      history.metrics[step + 1] = accuracy
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      history.saw(step + 1, events)
  draw(picture, [history], target=0.99)
  return history


if __name__ == '__main__':
  main()

"""Soft resets in plain JAX: you will see the second cycle reach the target."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from common import HIGH, TEST, scores, spirals, tell

from reset_cycles import Cycles, Event, State


def init(key: jax.Array) -> Any:
  sizes = zip(jax.random.split(key, 3), (2, 32, 32), (32, 32, 2))
  kernel = jax.nn.initializers.he_normal()
  return [(kernel(k, (a, b)), jnp.zeros(b)) for k, a, b in sizes]


def loss_fn(params: Any, points: Any, labels: Any) -> tuple[Any, Any]:
  *hidden, (kernel, bias) = params
  for one, other in hidden:
    points = jax.nn.relu(points @ one + other[None])
  return scores(points @ kernel + bias[None], labels)


def make_train_step(cycles: Cycles, loss_fn: Any = loss_fn) -> Any:
  def train_step(state: State, points: Any, labels: Any) -> State:
    grads, _ = jax.grad(loss_fn, has_aux=True)(state.params, points, labels)
    updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt)

  return jax.jit(train_step, donate_argnums=0)


def train(
  cycles: Cycles, init: Any, loss_fn: Any, steps: int, every: int
) -> list[Event]:
  said, params = [], init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))
  train_step, evaluate = make_train_step(cycles, loss_fn), jax.jit(loss_fn)
  for step in range(steps):
    state, events = cycles.before_step(step, state)
    said += events
    state = train_step(state, *spirals(step))
    if (step + 1) % every == 0:
      loss, accuracy = evaluate(cycles.eval_params(state), *TEST)
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      said += events
  return said


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    HIGH, optimizer=optax.adamw, num_steps=steps, make_params=init, target=0.99
  )
  events = train(cycles, init, loss_fn, steps, every)
  tell(events, 'The second cycle reaches what the first one did not.')
  return events


if __name__ == '__main__':
  main()

"""Soft resets in a loop with flax.linen's TrainState.

You will see a cycle with an absurd peak abandoned early, its network replaced,
and the next cycle reach the target.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from common import HIGH, TEST, scores, spirals, tell
from flax.training.train_state import TrainState

from reset_cycles import Cycles, Event


class Net(nn.Module):
  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    for _ in range(2):
      x = nn.relu(nn.Dense(32)(x))
    return nn.Dense(2)(x)


def loss_fn(params: Any, points: Any, labels: Any) -> tuple[Any, Any]:
  return scores(Net().apply({'params': params}, points), labels)


@jax.jit
def train_step(state: TrainState, *batch: jax.Array) -> TrainState:
  gradient, _ = jax.grad(loss_fn, has_aux=True)(state.params, *batch)
  return state.apply_gradients(grads=gradient)


def init(key: jax.Array) -> Any:
  return Net().init(key, jnp.zeros((1, 2)))['params']


def main(steps: int = 1500, every: int = 25) -> list[Event]:
  first, second, third = HIGH.cycles
  absurd = dataclasses.replace(second, peak=1e10)
  chain = dataclasses.replace(HIGH, cycles=(first, absurd, third))
  cycles = Cycles(chain, num_steps=steps, make_params=init, target=0.99)
  params, said = init(jax.random.PRNGKey(1)), []
  state = TrainState.create(apply_fn=None, params=params, tx=cycles.optimizer)
  for step in range(steps):
    state, events = cycles.before_step(step, state)
    said += events
    state = train_step(state, *spirals(step))
    if (step + 1) % every == 0:
      loss, accuracy = loss_fn(cycles.eval_params(state), *TEST)
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      said += events
  tell(
    said,
    'Cycle 2 has lost the network at its absurd peak; cycle 3, on a fresh one, '
    'reaches the target.',
  )
  return said


if __name__ == '__main__':
  main()

"""Soft resets of a flax.nnx model, trained by Lion.

You will see three learning-rate cycles and, between them, two soft resets.
"""

from typing import Any

import jax
import optax
from common import TEST, scores, spirals
from flax import nnx

from reset_cycles import Cycles, Event, State


class Net(nnx.Module):
  def __init__(self, rngs: nnx.Rngs) -> None:
    self.hidden = nnx.Linear(2, 64, rngs=rngs)
    self.output = nnx.Linear(64, 2, rngs=rngs)

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.output(nnx.relu(self.hidden(x)))


def init(key: jax.Array) -> Any:
  return nnx.state(Net(nnx.Rngs(key)), nnx.Param)


def loss_fn(params: Any, points: Any, labels: Any) -> tuple[Any, Any]:
  graph = nnx.graphdef(Net(nnx.Rngs(0)))
  return scores(nnx.merge(graph, params)(points), labels)


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    optimizer=optax.lion, num_steps=steps, make_params=init, target=0.99
  )
  update, evaluate = cycles.optimizer.update, jax.jit(loss_fn)
  params, said = init(jax.random.PRNGKey(1)), []
  state = State(params, cycles.optimizer.init(params))

  @jax.jit
  def train_step(state: State, points: Any, labels: Any) -> State:
    grads, _ = jax.grad(loss_fn, has_aux=True)(state.params, points, labels)
    updates, opt_state = update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt_state)

  for step in range(steps):
    state, events = cycles.before_step(step, state)
    state = train_step(state, *spirals(step))
    if (step + 1) % every == 0:
      loss, accuracy = evaluate(state.params, *TEST)
      state, more = cycles.after_evaluation(step + 1, loss, accuracy, state)
      events += more
    said += events
  return said


if __name__ == '__main__':
  print(*main(), sep='\n')

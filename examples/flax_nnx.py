"""Soft resets in a loop with nnx.Optimizer, trained by Lion.

You will see three learning-rate cycles and, between them, two soft resets.
"""

from typing import Any

import jax
import optax
from common import LOW, TEST, scores, spirals, tell
from flax import nnx

from reset_cycles import Cycles, Event, State


class Net(nnx.Module):
  def __init__(self, rngs: nnx.Rngs) -> None:
    self.hidden = nnx.Linear(2, 64, rngs=rngs)
    self.output = nnx.Linear(64, 2, rngs=rngs)

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.output(nnx.relu(self.hidden(x)))


def init(key: jax.Array) -> Any:
  return nnx.as_pure(nnx.state(Net(nnx.Rngs(key)), nnx.Param))


def loss_fn(model: Net, points: Any, labels: Any) -> tuple[Any, Any]:
  return scores(model(points), labels)


@nnx.jit
def train_step(model: Net, optimizer: Any, *batch: Any) -> None:
  optimizer.update(model, nnx.grad(loss_fn, has_aux=True)(model, *batch)[0])


def read(model: Net, optimizer: Any) -> State:
  """What `Cycles` takes: arrays, without nnx's variables around them."""
  params = nnx.as_pure(nnx.state(model, nnx.Param))
  return State(params, nnx.as_pure(optimizer.opt_state))


def write(model: Net, optimizer: Any, state: State) -> None:
  nnx.update(model, state.params)
  nnx.update(optimizer.opt_state, nnx.state(state.opt_state))


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    LOW, optimizer=optax.lion, num_steps=steps, make_params=init, target=0.99
  )
  model, said = Net(nnx.Rngs(1)), []
  optimizer = nnx.Optimizer(model, cycles.optimizer, wrt=nnx.Param)
  evaluate = nnx.jit(loss_fn)
  for step in range(steps):
    if cycles.steps_until_due(step) == 0:
      state, events = cycles.before_step(step, read(model, optimizer))
      write(model, optimizer, state)
      said += events
    train_step(model, optimizer, *spirals(step))
    if (step + 1) % every == 0:
      state, shown = read(model, optimizer), nnx.clone(model)
      nnx.update(shown, cycles.eval_params(state))
      loss, accuracy = evaluate(shown, *TEST)
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      write(model, optimizer, state)
      said += events
  tell(said, 'The second reset is softer than the first: less is missing.')
  return said


if __name__ == '__main__':
  main()

"""Soft resets of a flax.nnx model, trained by Lion.

You will see three learning-rate cycles and, between them, two soft resets.
"""

from typing import Any

import jax
import optax
from common import scores
from flax import nnx
from plain_jax import train

from reset_cycles import Cycles, Event


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
  return train(cycles, init, loss_fn, steps, every)


if __name__ == '__main__':
  print(*main(), sep='\n')

"""Muon with an average in nnx.Optimizer, without a rate to choose.

You will see what it reaches, and what AdamW reaches at each of five peaks.
"""

from typing import Any

import jax
from common import TEST, beside_adamw, scores, spirals
from flax import nnx
from flax_nnx import read

from reset_cycles import schedule_free_eval_params, schedule_free_muon


class Net(nnx.Module):
  def __init__(self, rngs: nnx.Rngs) -> None:
    self.first = nnx.Linear(2, 32, rngs=rngs)
    self.second = nnx.Linear(32, 32, rngs=rngs)
    self.output = nnx.Linear(32, 2, rngs=rngs)

  def __call__(self, x: jax.Array) -> jax.Array:
    hidden = nnx.relu(self.second(nnx.relu(self.first(x))))
    return self.output(hidden)


def loss_fn(model: Net, points: Any, labels: Any) -> tuple[Any, Any]:
  return scores(model(points), labels)


@nnx.jit
def train_step(model: Net, optimizer: Any, *batch: Any) -> None:
  optimizer.update(model, nnx.grad(loss_fn, has_aux=True)(model, *batch)[0])


def train(tx: Any, steps: int) -> tuple[Net, Any]:
  model = Net(nnx.Rngs(1))
  optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
  for step in range(steps):
    train_step(model, optimizer, *spirals(step))
  return model, optimizer


def accuracy(model: Net) -> float:
  return float(loss_fn(model, *TEST)[1])


def main(steps: int = 300) -> dict[str, float]:
  graph, _ = nnx.split(Net(nnx.Rngs(0)))
  # The trace of the loss says what each parameter is for.
  tx = schedule_free_muon(
    num_steps=steps,
    loss_fn=lambda params: loss_fn(nnx.merge(graph, params), *TEST),
  )
  model, optimizer = train(tx, steps)
  params, opt_state, _ = read(model, optimizer)
  average = nnx.merge(graph, schedule_free_eval_params(opt_state, params))
  return beside_adamw(
    accuracy(average), lambda tx: accuracy(train(tx, steps)[0]), steps
  )


if __name__ == '__main__':
  main()

"""Muon with an average and batch normalisation, whose statistics are renewed.

The train step keeps running statistics of the parameters that it steps, and not
of their average. You will see the test loss of the average with those, and with
statistics of its own.
"""

import statistics
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from common import TEST, scores, spirals

from reset_cycles import schedule_free_eval_params, schedule_free_muon


class Net(nn.Module):
  @nn.compact
  def __call__(self, x: jax.Array, is_trained: bool) -> jax.Array:
    for _ in range(2):
      norm = nn.BatchNorm(use_running_average=not is_trained, momentum=0.9)
      x = nn.relu(norm(nn.Dense(32)(x)))
    return nn.Dense(2)(x)


class State(NamedTuple):
  params: Any
  batch_stats: Any
  opt_state: Any


@jax.jit
def forward(params: Any, batch_stats: Any, points: Any) -> tuple[Any, Any]:
  """The logits of a batch, and the statistics after it."""
  variables = {'params': params, 'batch_stats': batch_stats}
  logits, after = Net().apply(variables, points, True, mutable=['batch_stats'])
  return logits, after['batch_stats']


def renewed(params: Any, batch_stats: Any, first: int, count: int = 50) -> Any:
  """The statistics of other parameters, on `count` batches."""
  for i in range(first, first + count):
    _, batch_stats = forward(params, batch_stats, spirals(i)[0])
  return batch_stats


def held_out_loss(params: Any, batch_stats: Any) -> float:
  points, labels = TEST
  variables = {'params': params, 'batch_stats': batch_stats}
  return float(scores(Net().apply(variables, points, False), labels)[0])


def train(seed: int, steps: int) -> tuple[float, float]:
  """The test loss with the statistics of the train step, and with renewed."""
  variables = Net().init(jax.random.PRNGKey(seed), jnp.zeros((2, 2)), True)
  params, batch_stats = variables['params'], variables['batch_stats']
  first = seed * 10_000
  points, labels = spirals(first)
  traced = lambda p: scores(forward(p, batch_stats, points)[0], labels)[0]
  tx = schedule_free_muon(num_steps=steps, loss_fn=traced)

  @jax.jit
  def train_step(state: State, points: Any, labels: Any) -> State:
    def loss_fn(params: Any) -> Any:
      logits, after = forward(params, state.batch_stats, points)
      return scores(logits, labels)[0], after

    gradient, after = jax.grad(loss_fn, has_aux=True)(state.params)
    updates, opt_state = tx.update(gradient, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), after, opt_state)

  state = State(params, batch_stats, tx.init(params))
  for step in range(first, first + steps):
    state = train_step(state, *spirals(step))
  average = schedule_free_eval_params(state.opt_state, state.params)
  own = renewed(average, state.batch_stats, first)
  return held_out_loss(average, state.batch_stats), held_out_loss(average, own)


def main(seeds: int = 10, steps: int = 900) -> list[tuple[float, float]]:
  losses = [train(seed, steps) for seed in range(seeds)]
  told, own = map(statistics.median, zip(*losses))
  lower = sum(after < before for before, after in losses)
  print(
    f"Reached: a test loss of {told:.4f} with the train step's statistics and "
    f'{own:.4f} with renewed ones, medians; lower in {lower} of {seeds} seeds.'
  )
  return losses


if __name__ == '__main__':
  main()

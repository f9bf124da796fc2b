"""The default cycles on an error that falls, and the best parameters kept.

You will see four cycles, and that the best parameters are not the last ones.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import TEST, spirals
from plain_jax import init, loss_fn, make_train_step

from reset_cycles import Cycles, State


def main(steps: int = 1500, every: int = 25) -> tuple[float, float]:
  """The test loss of the best parameters, and of the last ones."""
  cycles = Cycles(
    optimizer=optax.adamw,
    peak=0.014,
    num_steps=steps,
    make_params=init,
    rises=False,  # the metric is the test loss
  )
  points, labels = spirals(0)  # few: the model overfits
  train_step, evaluate = make_train_step(cycles), jax.jit(loss_fn)
  params = init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))
  best: float = math.inf
  best_params: Any = None
  best_step, said = 0, []
  for step in range(steps):
    state, events = cycles.before_step(step, state)
    said += events
    chosen = np.random.default_rng(step).choice(len(labels), 64)
    state = train_step(state, points[chosen], labels[chosen])
    if (step + 1) % every == 0:
      params = cycles.eval_params(state)
      loss = float(evaluate(params, *TEST)[0])
      if loss < best:
        # Copied, since the next step deletes the arrays of the state (donated).
        best, best_step = loss, step + 1
        best_params = jax.tree_util.tree_map(jnp.copy, params)
      state, events = cycles.after_evaluation(step + 1, loss, loss, state)
      said += events
  print(*(event for event in said if event.kind != 'evaluation'), sep='\n')
  again = float(evaluate(best_params, *TEST)[0])
  print(
    f'Reached: a test loss of {again:.3f} with the parameters kept at step '
    f'{best_step}, and {loss:.3f} with the last ones.'
  )
  return again, loss


if __name__ == '__main__':
  main()

"""Muon with an average in flax's TrainState, without a rate to choose.

You will see what it reaches, and what AdamW reaches at each of five peaks.
"""

from typing import Any

import jax
from common import TEST, beside_adamw, spirals
from flax.training.train_state import TrainState
from flax_linen import init, loss_fn, train_step

from reset_cycles import schedule_free_eval_params, schedule_free_muon


def train(tx: Any, steps: int) -> TrainState:
  params = init(jax.random.PRNGKey(1))
  state = TrainState.create(apply_fn=None, params=params, tx=tx)
  for step in range(steps):
    state = train_step(state, *spirals(step))
  return state


def accuracy(params: Any) -> float:
  return float(loss_fn(params, *TEST)[1])


def main(steps: int = 300) -> dict[str, float]:
  # The trace of the loss says what each parameter is for.
  tx = schedule_free_muon(num_steps=steps, loss_fn=lambda p: loss_fn(p, *TEST))
  state = train(tx, steps)
  average = schedule_free_eval_params(state.opt_state, state.params)
  return beside_adamw(
    accuracy(average), lambda tx: accuracy(train(tx, steps).params), steps
  )


if __name__ == '__main__':
  main()

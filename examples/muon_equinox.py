"""Muon with an average on an equinox model, without a rate to choose.

You will see what it reaches, and what AdamW reaches at each of five peaks.
"""

from typing import Any

import equinox as eqx
import jax
from common import TEST, beside_adamw, spirals
from equinox_mlp import init, loss_fn

from reset_cycles import schedule_free_eval_params, schedule_free_muon


def train(tx: Any, steps: int) -> tuple[Any, Any]:
  """The arrays of the model, and the state."""

  @eqx.filter_jit
  def train_step(params: Any, opt_state: Any, *batch: Any) -> tuple[Any, Any]:
    grads, _ = jax.grad(loss_fn, has_aux=True)(params, *batch)
    updates, opt_state = tx.update(grads, opt_state, params)
    return eqx.apply_updates(params, updates), opt_state

  params = init(jax.random.PRNGKey(1))
  opt_state = tx.init(params)
  for step in range(steps):
    params, opt_state = train_step(params, opt_state, *spirals(step))
  return params, opt_state


def accuracy(params: Any) -> float:
  return float(loss_fn(params, *TEST)[1])


def main(steps: int = 300) -> dict[str, float]:
  # The trace of the loss says that equinox stores weights as (out, in).
  tx = schedule_free_muon(num_steps=steps, loss_fn=lambda p: loss_fn(p, *TEST))
  params, opt_state = train(tx, steps)
  average = schedule_free_eval_params(opt_state, params)
  return beside_adamw(
    accuracy(average), lambda tx: accuracy(train(tx, steps)[0]), steps
  )


if __name__ == '__main__':
  main()

"""Many steps in one compiled call: `jax.lax.scan` up to the next decision.

You will see the resets of plain_jax.py, from calls of up to 20 steps.
"""

from typing import Any

import jax
import numpy as np
import optax
from common import HIGH, TEST, spirals, tell
from plain_jax import init, loss_fn, make_train_step

from reset_cycles import Cycles, Event, State


def main(steps: int = 1500, block: int = 20) -> list[Event]:
  cycles = Cycles(
    HIGH, optimizer=optax.adamw, num_steps=steps, make_params=init, target=0.99
  )

  @jax.jit
  def train_steps(state: State, batches: Any) -> State:
    def one_step(state: State, batch: Any) -> tuple[State, None]:
      return train_step(state, *batch), None

    return jax.lax.scan(one_step, state, batches)[0]

  train_step, evaluate = make_train_step(cycles), jax.jit(loss_fn)
  params, said, step = init(jax.random.PRNGKey(1)), [], 0
  state = State(params, cycles.optimizer.init(params))
  while step < steps:
    state, events = cycles.before_step(step, state)
    said += events
    # Blocks of one length compile once; before a decision there is a rest.
    count = min(block, cycles.steps_until_due(step), steps - step)
    batches = zip(*(spirals(step + i) for i in range(count)))
    state = train_steps(state, tuple(map(np.stack, batches)))
    step += count
    loss, accuracy = evaluate(cycles.eval_params(state), *TEST)
    state, events = cycles.after_evaluation(step, loss, accuracy, state)
    said += events
  tell(said, 'The resets are those of plain_jax.py.')
  return said


if __name__ == '__main__':
  main()

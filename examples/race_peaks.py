"""A race of peak learning rates in one run.

You will see that the model hardly learns with a peak of 0.00001, and that a fresh
network begins with one a thousand times as high, which goes on.
"""

import dataclasses

import jax
import optax
import plain_jax
from common import TEST, spirals

from reset_cycles import DEFAULT_CHAIN, Cycles, Event, State
from reset_cycles.core.race import Race

SETTINGS = dataclasses.replace(
  DEFAULT_CHAIN.override({'learning_rate': 0.00001}),
  policy=Race(peaks=(1.0, 1000.0), min_loss_drop=0.01),
  early_switching=False,
)


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    SETTINGS,
    optimizer=optax.adamw,
    num_steps=steps,
    make_params=plain_jax.init,
    target=0.99,
  )
  params, said = plain_jax.init(jax.random.PRNGKey(1)), []
  state = State(params, cycles.optimizer.init(params))
  train_step, evaluate = (
    plain_jax.make_train_step(cycles),
    jax.jit(plain_jax.loss_fn),
  )
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

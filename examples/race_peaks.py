"""A race of peak learning rates in one run.

You will see that the model hardly learns with a peak of 0.00001, and that a fresh
network begins with one a thousand times as high, which goes on.
"""

import dataclasses

import optax
from plain_jax import init, loss_fn, train

from reset_cycles import THESIS, Cycles, Event
from reset_cycles.schedule_params import Race

SETTINGS = dataclasses.replace(
  THESIS.override({'learning_rate': 0.00001}),
  repeat=True,
  race=Race(peaks=(1.0, 1000.0), min_loss_drop=0.01),
  early_switching=False,
)


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    SETTINGS,
    optimizer=optax.adamw,
    num_steps=steps,
    make_params=init,
    target=0.99,
  )
  return train(cycles, init, loss_fn, steps, every)


if __name__ == '__main__':
  print(*main(), sep='\n')

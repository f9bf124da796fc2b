"""Soft resets of an equinox model, trained by Muon.

You will see three learning-rate cycles and, between them, two soft resets.
"""

from typing import Any

import equinox as eqx
import jax
import optax
from common import LOW, scores, tell
from plain_jax import train

from reset_cycles import Cycles, Event


def init(key: jax.Array) -> Any:
  model = eqx.nn.MLP(2, 2, width_size=32, depth=2, key=key)
  return eqx.filter(model, eqx.is_inexact_array)  # the arrays without functions


STATIC = eqx.nn.MLP(2, 2, width_size=32, depth=2, key=jax.random.PRNGKey(0))


def loss_fn(params: Any, points: Any, labels: Any) -> tuple[Any, Any]:
  model = eqx.combine(params, STATIC)
  return scores(jax.vmap(model)(points), labels)


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    LOW,
    optimizer=optax.contrib.muon,
    num_steps=steps,
    make_params=init,
    target=0.99,
  )
  events = train(cycles, init, loss_fn, steps, every)
  tell(events, 'The second reset is softer than the first: less is missing.')
  return events


if __name__ == '__main__':
  main()

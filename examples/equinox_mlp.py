"""Soft resets of an equinox model, trained by Muon.

You will see three learning-rate cycles and, between them, two soft resets.
"""

from typing import Any

import equinox as eqx
import jax
import optax
from common import TEST, scores, spirals

from reset_cycles import Cycles, Event, State


def init(key: jax.Array) -> Any:
  model = eqx.nn.MLP(2, 2, width_size=32, depth=2, key=key)
  return eqx.filter(model, eqx.is_inexact_array)  # the arrays without functions


STATIC = eqx.nn.MLP(2, 2, width_size=32, depth=2, key=jax.random.PRNGKey(0))


def loss_fn(params: Any, points: Any, labels: Any) -> tuple[Any, Any]:
  model = eqx.combine(params, STATIC)
  return scores(jax.vmap(model)(points), labels)


def main(steps: int = 1500, every: int = 50) -> list[Event]:
  cycles = Cycles(
    optimizer=optax.contrib.muon, num_steps=steps, make_params=init, target=0.99
  )
  update, evaluate = cycles.optimizer.update, jax.jit(loss_fn)
  said, params = [], init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))

  @jax.jit
  def train_step(state: State, points: Any, labels: Any) -> State:
    grads, _ = jax.grad(loss_fn, has_aux=True)(state.params, points, labels)
    updates, opt_state = update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt_state)

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

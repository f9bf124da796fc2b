"""Soft resets in a loop with flax.nnx and an optimizer from optax, Lion.

You will see three cycles and the soft resets between them, which also shrink
Lion's moment, since its field is named. flax_nnx.png shows the run.

  python examples/flax_nnx.py
"""

import jax
import jax.numpy as jnp
import optax
from common import History, draw, spirals
from flax import nnx

from reset_cycles import THESIS, Cycles, NamedSlots, State


class Net(nnx.Module):
  def __init__(self, rngs: nnx.Rngs) -> None:
    self.first = nnx.Linear(2, 32, rngs=rngs)
    self.second = nnx.Linear(32, 32, rngs=rngs)
    self.output = nnx.Linear(32, 2, rngs=rngs)

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.output(nnx.relu(self.second(nnx.relu(self.first(x)))))


GRAPH = nnx.graphdef(Net(nnx.Rngs(0)))


@jax.jit
def init(key: jax.Array) -> nnx.State:
  return nnx.state(Net(nnx.Rngs(key)))


@jax.jit
def loss_fn(
  params: nnx.State, points: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
  logits = nnx.merge(GRAPH, params)(points)
  losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return losses.mean(), (jnp.argmax(logits, axis=-1) == labels).mean()


def main(num_steps: int = 1500, picture: str = 'flax_nnx.png') -> History:
  lion = NamedSlots(
    lambda rate, decay: optax.lion(rate, weight_decay=decay),
    moments=['mu'],
    counts=['count'],
  )
  chain = THESIS.override({'learning_rate': 0.002, 'weight_decay': 0.01})
  cycles = Cycles(chain, num_steps, make_params=init, target=0.99, inner=lion)
  params = init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))

  @jax.jit
  def train_step(state: State, points: jax.Array, labels: jax.Array) -> State:
    gradient, _ = jax.grad(loss_fn, has_aux=True)(state.params, points, labels)
    updates, opt_state = cycles.optimizer.update(
      gradient, state.opt_state, state.params
    )
    return State(optax.apply_updates(state.params, updates), opt_state)

  history, every = History(), max(num_steps // 30, 1)
  for step in range(num_steps):
    state, events = cycles.before_step(step, state)
    history.saw(step, events, cycles.learning_rate(state))
    state = train_step(state, *spirals(step, count=64))
    if (step + 1) % every == 0:
      loss, accuracy = map(float, loss_fn(state.params, *spirals(2**31)))
      history.metrics[step + 1] = accuracy
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      history.saw(step + 1, events)
  draw(picture, [history], target=0.99)
  return history


if __name__ == '__main__':
  main()

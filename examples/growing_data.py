"""More data arrive: you will see what a soft reset makes of the old model."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import scores
from sklearn.datasets import load_digits

from reset_cycles import Cycles, State

OLD, NEW = 500, 1000  # images to train on, before and after


def images() -> tuple[np.ndarray, np.ndarray]:
  """Noisy digits and their classes, in random order; 797 are for tests."""
  inputs, classes = load_digits(return_X_y=True)
  rng = np.random.default_rng(0)
  noisy = (inputs - 4.9) / 6 + 0.7 * rng.standard_normal(inputs.shape)
  order = rng.permutation(len(classes))
  return noisy[order].astype(np.float32), classes[order]


def init(key: jax.Array) -> Any:
  kernel = jax.nn.initializers.he_normal()
  shapes = (9, 16), (9 * 16, 32), (4 * 32, 64), (64, 10)
  biases = (1, 1, 1, 16), (1, 1, 1, 32), (1, 64), (1, 10)
  layers = zip(jax.random.split(key, 4), shapes, biases)
  return [(kernel(k, shape), jnp.zeros(bias)) for k, shape, bias in layers]


def patches(x: jax.Array) -> jax.Array:
  """What a 3x3 convolution of stride 2 multiplies."""
  x, size = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), x.shape[1]
  nine = [
    x[:, i : i + size : 2, j : j + size : 2] for i in range(3) for j in range(3)
  ]
  return jnp.concatenate(nine, axis=-1)


def loss_fn(params: Any, inputs: Any, classes: Any) -> tuple[Any, Any]:
  """Two convolutions and two dense layers: (loss, accuracy)."""
  x = inputs.reshape(-1, 8, 8, 1)
  for i, (kernel, bias) in enumerate(params):
    x = patches(x) if i < 2 else x.reshape(len(x), -1)
    x = x @ kernel + bias
    x = jax.nn.relu(x) if i < 3 else x
  return scores(x, classes)


def make_train_step(cycles: Cycles) -> Any:
  def train_step(state: State, inputs: Any, classes: Any) -> State:
    grads, _ = jax.grad(loss_fn, has_aux=True)(state.params, inputs, classes)
    updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt)

  return jax.jit(train_step)


def train_ways(seed: int, old_steps: int, new_steps: int) -> dict[str, float]:
  """The accuracy that each way reaches."""
  x, y = images()
  cycles = Cycles(
    optimizer=optax.adamw,
    peak=0.01,
    num_steps=old_steps,
    make_params=init,
    key=jax.random.PRNGKey(seed),
  )
  train_step = make_train_step(cycles)

  def train(state: State, first: int, last: int, count: int) -> State:
    for step in range(first, last):
      chosen = np.random.default_rng((seed, step)).choice(count, 32)
      state, _ = cycles.before_step(step, state)
      state = train_step(state, x[chosen], y[chosen])
    return state

  def fresh(number: int) -> State:
    params = init(jax.random.PRNGKey(100 * seed + number))
    return State(params, cycles.optimizer.init(params))

  def accuracy(state: State) -> float:
    params = cycles.eval_params(state)
    return float(loss_fn(params, x[NEW:], y[NEW:])[1])

  old = train(fresh(1), 0, old_steps, OLD)
  reached, end = {'the old model': accuracy(old)}, old_steps + new_steps
  old = jax.tree_util.tree_map(np.array, old)  # a stage donates its state
  for tau in (0.0, 0.1, 0.4):
    state, events = cycles.new_stage(old, num_steps=new_steps, tau=tau)
    print(events[0])
    name = f'a soft reset, tau {tau}' if tau else 'going on plainly'
    reached[name] = accuracy(train(state, old_steps, end, NEW))
  reached['a fresh model'] = accuracy(train(fresh(2), 0, new_steps, NEW))
  return reached


def main(
  old_steps: int = 1080, new_steps: int = 360, seeds: int = 3
) -> dict[str, float]:
  each = [train_ways(seed, old_steps, new_steps) for seed in range(seeds)]
  return {name: float(np.mean([e[name] for e in each])) for name in each[0]}


if __name__ == '__main__':
  found = main()
  print('Accuracy on other images, the mean of three seeds:')
  for name, value in found.items():
    print(f'  {name}: {value:.3f}')
  best = max(found, key=lambda name: found[name])
  print(
    f'Reached: {found[best]:.3f} by {best}. See how near the ways are: '
    'research/growing/GROWING_DATA.md says where they differ.'
  )

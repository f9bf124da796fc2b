"""What `Cycles` brings in a loop of one's own: its default, THESIS, one cosine.

  .venv/bin/python benchmarks/own_loop.py [--seeds=10]

Three small tasks, each trained by `optax.adamw` at the default's peak and at
eight times as much, and evaluated 40 times. Prints for each chain the targets
reached and, over those that both reach, the geometric mean of its steps to the
target over one cosine's.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from reset_cycles import SOFT_RESET, THESIS, Cycles, ScheduleParams, State
from reset_cycles.core.schedules import Cycle

Batch = tuple[np.ndarray, np.ndarray]


class Task(NamedTuple):
  """A network of Dense layers, its data, and what it is to reach."""

  sizes: tuple[int, ...]
  batch: Callable[[np.random.Generator], Batch]
  test: Batch
  steps: int
  target: float
  is_accuracy: bool = True  # else the root of the mean squared error


def digits() -> Task:
  """1,797 images of 8x8, of which 1,300 are trained on."""
  images, labels = load_digits(return_X_y=True)
  order = np.random.default_rng(0).permutation(len(labels))
  x, y = (images[order] / 16).astype(np.float32), labels[order]
  batch = lambda rng: (lambda i: (x[i], y[i]))(rng.choice(1300, 64))
  return Task((64, 64, 10), batch, (x[1300:], y[1300:]), 600, 0.98)


def spirals() -> Task:
  """Two spirals of two turns each."""

  def points(rng: np.random.Generator, count: int = 64) -> Batch:
    labels, turn = rng.integers(0, 2, count), 0.25 + 1.75 * rng.random(count)
    angle = 2 * np.pi * (turn + labels / 2)
    x = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x += 0.05 * rng.standard_normal(x.shape)
    return x.astype(np.float32), labels

  test = points(np.random.default_rng(2**31), 512)
  return Task((2, 32, 32, 2), points, test, 1500, 0.99)


def teacher() -> Task:
  """The noisy output of a network with twelve hidden units."""
  rng = np.random.default_rng(5)
  hidden, out = rng.normal(size=(16, 12)), rng.normal(size=12)

  def sample(rng: np.random.Generator, count: int = 64) -> Batch:
    x = rng.normal(size=(count, 16))
    y = np.tanh(x @ hidden / 2) @ out / 3 + 0.1 * rng.normal(size=count)
    return x.astype(np.float32), y.astype(np.float32)

  test = sample(np.random.default_rng(9), 2048)
  return Task((16, 64, 64, 1), sample, test, 800, 0.2, is_accuracy=False)


def fresh(task: Task, key: jax.Array) -> Any:
  """Parameters of the network: for each layer its kernel and bias."""
  sizes = list(zip(task.sizes, task.sizes[1:]))
  kernel = jax.nn.initializers.he_normal()
  keys = jax.random.split(key, len(sizes))
  return [(kernel(k, size), jnp.zeros(size[1])) for k, size in zip(keys, sizes)]


def scores(task: Task, params: Any, x: Any, y: Any) -> tuple[Any, Any]:
  """The loss and the metric."""
  for kernel, bias in params[:-1]:
    x = jax.nn.relu(x @ kernel + bias[None])
  out = x @ params[-1][0] + params[-1][1][None]
  if not task.is_accuracy:
    error = jnp.mean((out[:, 0] - y) ** 2)
    return error, jnp.sqrt(error)
  losses = optax.softmax_cross_entropy_with_integer_labels(out, y)
  return losses.mean(), (out.argmax(axis=-1) == y).mean()


def steps_to_target(task: Task, chain: ScheduleParams, seed: int) -> float:
  """Steps until the target is reached; infinite if it never is."""
  cycles = Cycles(
    chain,
    num_steps=task.steps,
    make_params=lambda key: fresh(task, key),
    optimizer=optax.adamw,
    target=task.target,
    rises=task.is_accuracy,
    key=jax.random.PRNGKey(100 + seed),
  )
  loss = lambda params, x, y: scores(task, params, x, y)[0]

  @jax.jit
  def train_step(state: State, x: Any, y: Any) -> State:
    grads = jax.grad(loss)(state.params, x, y)
    updates, opt = cycles.optimizer.update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt)

  evaluate = jax.jit(lambda params: scores(task, params, *task.test))
  params = fresh(task, jax.random.PRNGKey(seed))
  state = State(params, cycles.optimizer.init(params))
  rng = np.random.default_rng(seed)
  for step in range(1, task.steps + 1):
    state, _ = cycles.before_step(step - 1, state)
    state = train_step(state, *task.batch(rng))
    if step % (task.steps // 40) == 0:
      value, metric = map(float, evaluate(state.params))
      gap = task.target - metric if task.is_accuracy else metric - task.target
      if gap <= 0:  # false for the NaN of a diverged run
        return step
      state, _ = cycles.after_evaluation(step, value, metric, state)
  return math.inf


def main() -> None:
  """Trains all chains, and prints a line for each peak and chain."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--seeds', type=int, default=10)
  seeds = range(parser.parse_args().seeds)
  peak, replace = SOFT_RESET.cycles[0].peak, dataclasses.replace
  cosine = replace(THESIS, cycles=(Cycle(peak),), early_switching=False)
  chains = {
    'one cosine': cosine,
    'THESIS': replace(THESIS, cycles=(Cycle(peak),) * 3, repeat=True),
    'SOFT_RESET': SOFT_RESET,
  }
  tasks = [digits(), spirals(), teacher()]
  for scale in (1, 8):
    base: list[float] = []
    for name, chain in chains.items():
      faster = [replace(c, peak=scale * c.peak) for c in chain.cycles]
      scaled = replace(chain, cycles=tuple(faster))
      cases = itertools.product(tasks, seeds)
      steps = [steps_to_target(task, scaled, seed) for task, seed in cases]
      base = base or steps
      both = [a / b for a, b in zip(steps, base) if max(a, b) < math.inf]
      ratio = math.exp(np.mean(np.log(both))) if both else math.nan
      reached = sum(s < math.inf for s in steps)
      print(f'{scale} x  {name:10}  {reached} of {len(steps)}  {ratio:.2f}')


if __name__ == '__main__':
  main()

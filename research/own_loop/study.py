"""What to take in a loop of one's own: cycles beside other optimizers.

Six small loops (a network of Dense layers, a convolutional one, a Transformer;
each by accuracy and by loss), three peaks, four arms: AdamW with one cosine,
Schedule-Free AdamW, the cycles of `LOOP`, and `SOFT_RESET` with its resets and
its rule. Each run adds a row to runs.csv.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ... import SOFT_RESET, Cycles, State
from ...loop import LOOP
from .. import run_logs, small
from ..small import (
  accuracy,
  apply_layers,
  cross_entropy,
  layers,
)

HERE = pathlib.Path(__file__).parent
LOG = HERE / 'runs.csv'
TEXT = HERE.parents[1] / 'mini_algoperf' / 'workloads' / 'text.txt'
STEPS, EVERY = 480, 16
PEAKS = (0.001, 0.0025, 0.01)
ARMS = ('cosine', 'schedule_free', 'loop', 'soft_reset')
LOOPS = tuple(
  f'{network}_{metric}'
  for network in ('mlp', 'cnn', 'transformer')
  for metric in ('accuracy', 'loss')
)
KEY = ('loop', 'arm', 'peak', 'seed')
FIELDS = (*KEY, 'reached', 'first', 'last')

Batch = tuple[Any, Any]


class Loop(NamedTuple):
  """A network, its data, and what is measured."""

  init: Callable[[jax.Array], Any]  # key -> parameters
  apply: Callable[[Any, Any], Any]  # (parameters, inputs) -> logits
  batch: Callable[[np.random.Generator], Batch]
  test: Batch
  target: float
  is_accuracy: bool


def conv_init(key: jax.Array) -> Any:
  """Two convolutions of 3x3 and a Dense layer."""
  kernel = jax.nn.initializers.he_normal()
  keys = jax.random.split(key, 3)
  sizes = ((3, 3, 1, 8), (3, 3, 8, 16))
  convs = [kernel(k, size) for k, size in zip(keys, sizes)]
  return {'conv': convs, 'dense': layers(keys[2], 64, 10)}


def conv_apply(params: Any, x: Any) -> Any:
  """Logits of images of 8x8."""
  x = x.reshape(-1, 8, 8, 1)
  for kernel in params['conv']:
    numbers = ('NHWC', 'HWIO', 'NHWC')
    x = jax.lax.conv_general_dilated(
      x, kernel, (2, 2), 'SAME', dimension_numbers=numbers
    )
    x = jax.nn.relu(x)
  return apply_layers(params['dense'], x.reshape(len(x), -1))


CONTEXT, WIDTH, HEADS = 16, 32, 2


def transformer_init(key: jax.Array, *, size: int) -> Any:
  """One causal layer of attention and Dense layers."""
  keys = jax.random.split(key, 5)
  normal = jax.nn.initializers.normal(0.1)
  return {
    'embedding': normal(keys[0], (size, WIDTH)),
    'position': normal(keys[1], (CONTEXT, WIDTH)),
    'qkv': normal(keys[2], (WIDTH, 3 * WIDTH)),
    'mlp': layers(keys[3], WIDTH, 4 * WIDTH, WIDTH),
    'out': layers(keys[4], WIDTH, size),
  }


def transformer_apply(params: Any, tokens: Any) -> Any:
  """Logits of the next character at each position."""
  norm: Any = functools.partial(jax.nn.standardize, axis=-1)
  x = params['embedding'][tokens] + params['position'][None]
  q, k, v = jnp.split(norm(x) @ params['qkv'], 3, axis=-1)
  heads = lambda y: y.reshape(*y.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)
  q, k, v = map(heads, (q, k, v))
  scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH / HEADS)
  mask = np.tril(np.ones((CONTEXT, CONTEXT), bool))[None, None]
  attended = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
  x = x + attended.transpose(0, 2, 1, 3).reshape(x.shape)
  x = x + apply_layers(params['mlp'], norm(x))
  return apply_layers(params['out'], norm(x))


def digits() -> tuple[Callable[[np.random.Generator], Batch], Batch]:
  """1,797 images of 8x8, of which 1,300 are trained on."""
  pixels, y = small.digits(seed=0)
  x = (pixels / 16).astype(np.float32)
  batch = lambda rng: (lambda i: (x[i], y[i]))(rng.choice(1300, 32))
  return batch, (x[1300:], y[1300:])


def characters() -> tuple[Callable[[np.random.Generator], Batch], Batch, int]:
  """Pieces of 16 characters; the last tenth of the text is not trained on."""
  text = np.frombuffer(TEXT.read_bytes(), np.uint8)
  symbols, tokens = np.unique(text, return_inverse=True)
  cut = int(0.9 * len(tokens))

  def pieces(starts: np.ndarray) -> Batch:
    found = tokens[starts[:, None] + np.arange(CONTEXT + 1)]
    return found[:, :-1], found[:, 1:]

  batch = lambda rng: pieces(rng.integers(0, cut - CONTEXT - 1, 16))
  test = np.arange(cut, len(tokens) - CONTEXT - 1, 67)[:256]
  return batch, pieces(test), len(symbols)


def make_loops() -> dict[str, Loop]:
  """Three networks by accuracy and by loss; easy and ambitious targets."""
  batch, test = digits()
  mlp = (lambda key: layers(key, 64, 64, 10), apply_layers, batch, test)
  cnn = (conv_init, conv_apply, batch, test)
  batch, test, size = characters()
  init = functools.partial(transformer_init, size=size)
  transformer = (init, transformer_apply, batch, test)
  return {
    'mlp_accuracy': Loop(*mlp, 0.985, True),  # ambitious
    'mlp_loss': Loop(*mlp, 0.2, False),  # easy
    'cnn_accuracy': Loop(*cnn, 0.95, True),  # easy
    'cnn_loss': Loop(*cnn, 0.05, False),  # ambitious
    'transformer_accuracy': Loop(*transformer, 0.33, True),  # easy
    'transformer_loss': Loop(*transformer, 2.0, False),  # ambitious
  }


def scores(loop: Loop, params: Any, x: Any, y: Any) -> tuple[Any, Any]:
  """The mean loss and the metric."""
  logits = loop.apply(params, x)
  loss = cross_entropy(logits, y)
  return loss, accuracy(logits, y) if loop.is_accuracy else loss


def cycles_of(loop: Loop, arm: str, peak: float, seed: int) -> Cycles:
  """The arm's cycles, with AdamW inside."""
  settings = {'loop': LOOP, 'soft_reset': SOFT_RESET}[arm]
  cycles = tuple(dataclasses.replace(c, peak=peak) for c in settings.cycles)
  return Cycles(
    dataclasses.replace(settings, cycles=cycles),
    num_steps=STEPS,
    make_params=loop.init,
    optimizer=optax.adamw,
    target=loop.target,
    rises=loop.is_accuracy,
    key=jax.random.PRNGKey(100 + seed),
  )


def metrics_of(loop: Loop, arm: str, peak: float, seed: int) -> list[float]:
  """The metric of the untrained model and after every sixteenth step."""
  cycles: Cycles | None = None
  warm = optax.warmup_cosine_decay_schedule(
    0.0, peak, round(0.02 * STEPS), STEPS
  )
  # The same decay as the settings give to AdamW.
  decay = getattr(SOFT_RESET.optimizer, 'weight_decay', 0.0)
  optimizer: Any
  shown: Callable[[Any], Any] = lambda state: state.params
  if arm == 'cosine':
    optimizer = optax.adamw(warm, weight_decay=decay)
  elif arm == 'schedule_free':
    optimizer = optax.contrib.schedule_free_adamw(
      peak, warmup_steps=round(0.02 * STEPS), weight_decay=decay
    )
    shown = lambda state: optax.contrib.schedule_free_eval_params(
      state.opt_state, state.params
    )
  else:
    cycles = cycles_of(loop, arm, peak, seed)
    optimizer = cycles.optimizer

  @jax.jit
  def train_step(state: State, x: Any, y: Any) -> State:
    loss = lambda params: scores(loop, params, x, y)[0]
    grads = jax.grad(loss)(state.params)
    updates, opt = optimizer.update(grads, state.opt_state, state.params)
    return State(optax.apply_updates(state.params, updates), opt)

  evaluate = jax.jit(lambda state: scores(loop, shown(state), *loop.test))
  params = loop.init(jax.random.PRNGKey(seed))
  state = State(params, optimizer.init(params))
  rng, found = np.random.default_rng(seed), [float(evaluate(state)[1])]
  for step in range(STEPS):
    if cycles is not None:
      state, _ = cycles.before_step(step, state)
    state = train_step(state, *loop.batch(rng))
    # Once after the first step, as the benchmark's runner evaluates.
    if step == 0 or (step + 1) % EVERY == 0:
      loss, metric = map(float, evaluate(state))
      if step:
        found.append(metric)
      if cycles is not None:
        state, _ = cycles.after_evaluation(step + 1, loss, metric, state)
  return found


def row_of(loop: Loop, metrics: list[float]) -> tuple[int, float, float]:
  """(steps to the target or 0, first metric, last metric)."""
  first, *rest = metrics
  sign = 1 if loop.is_accuracy else -1
  hits = [i for i, x in enumerate(rest) if sign * (x - loop.target) >= 0]
  return EVERY * (hits[0] + 1) if hits else 0, first, rest[-1]


def table(rows: Sequence[Mapping[str, str]]) -> str:
  """For each loop and peak, the median share of the way, and targets reached.

  The way is from the untrained model's metric to the target.
  """
  loops, lines = make_loops(), []
  names = dict.fromkeys(row['loop'] for row in rows)
  for name, peak in itertools.product(names, PEAKS):
    cells = []
    for arm in ARMS:
      found = [
        r
        for r in rows
        if (r['loop'], r['arm'], float(r['peak'])) == (name, arm, peak)
      ]
      first, last = (
        np.array([float(r[k]) for r in found]) for k in ('first', 'last')
      )
      share = (last - first) / (loops[name].target - first)
      low, middle, high = np.nanpercentile(share, (0, 50, 100))
      reached = sum(int(r['reached']) > 0 for r in found)
      cells.append(f'{middle:.3f} ({low:.3f} to {high:.3f}), {reached}')
    lines.append(f'| {name} | {peak} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def train(
  names: Sequence[str], seeds: Sequence[int], log: pathlib.Path
) -> None:
  """Trains what the log lacks; adds a row for each run."""
  loops = make_loops()
  there = {tuple(row[k] for k in KEY) for row in run_logs.read(log, FIELDS)}
  for seed, name, arm, peak in itertools.product(seeds, names, ARMS, PEAKS):
    if (name, arm, str(peak), str(seed)) in there:
      continue
    metrics = metrics_of(loops[name], arm, peak, seed)
    row = (name, arm, peak, seed, *row_of(loops[name], metrics))
    run_logs.append(log, FIELDS, [row])

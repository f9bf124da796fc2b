"""Would a table of rates serve as well as formulas inside the train step?

  .venv/bin/python benchmarks/rate_tables.py [--out=FILE]

The rates of a cycle can be computed in the step from their formula, as is done
now, or read from a float32 table over nominal steps, with linear interpolation.
Two chains of three cycles over 186,666 steps, ImageNet's step_hint, are
compared: the thesis' three decays, and three with jumps. Measured for both
ways: the error against the formula in float64, at pace 1 and at other paces,
away from jumps and within a nominal step of one; whether the static chain and
the step read the same bits at pace 1; the size of the compiled program; the
time of a step of AdamW with 100,000 parameters, in alternating blocks; and the
time of reading only a rate, in a compiled loop.

Found (results/rate_tables_cpu.json): at pace 1 both give the same bits in the
static chain and in the step, and both are exact to a few roundings. At another
pace the table spreads a jump over a nominal step, where it is off by up to 0.37
of the peak, and cuts the corner at the end of a warm-up (5.6e-6 of the peak);
the formulas are as exact there as everywhere, 1.2e-7. A table saves 4 to 7 ns
of a step of 200 µs, which is within the spread of its times, and 29 to 43 % of
its 157 to 195 instructions; it takes 747 kB, and as much again for a weight
decay. So the formulas stay in the step.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from overhead import summary, versions
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.warmup_decay import combine_warmup_decay_fn

STEPS = 62_222  # of each of the three cycles
WARMUP = 1_244
FALL = STEPS - WARMUP
PEAK = 0.0017486387539278373
PACES = (1.0, 0.73, 1.37)
PARAMETERS = 100_000
STEPS_PER_BLOCK, PAIRS = 200, 41
READS = 20_000

# (index of the cycle, nominal step in it) -> learning rate.
Read = Callable[[jax.Array, jax.Array], jax.Array]

CHAINS = {
  'thesis': ('cosine', 'holding_exponential', 'holding_linear'),
  'jumps': (
    'step',
    {'name': 'exponential', 'factor': 0.5, 'share': 0.1, 'staircase': True},
    {'name': 'wsd', 'checkpoints': 2},
  ),
}


def wsd(u: np.ndarray) -> np.ndarray:
  """Two periods of whole steps, the last fifth of each linear down to 0."""
  half = FALL // 2
  start, steps = (
    np.where(u < half, 0, half),
    np.where(u < half, half, FALL - half),
  )
  down = np.floor(0.2 * steps)
  return np.clip((start + steps - u) / down, 0.0, 1.0)


# The decays in float64, with u steps since the end of the warm-up, and their
# jumps.
HOLD = WARMUP + 0.2 * STEPS
EXACT = {
  'cosine': lambda u: 0.5 + 0.5 * np.cos(np.pi * np.minimum(u / FALL, 1)),
  'holding_exponential': lambda u: (
    0.1 ** (np.maximum(u - HOLD, 0) / (0.6 * STEPS))
  ),
  'holding_linear': lambda u: np.clip(
    1 - (u - HOLD) / (0.8 * STEPS - 2 * WARMUP), 0, 1
  ),
  'step': lambda u: 0.1 ** ((u >= 0.5 * FALL) + 1.0 * (u >= 0.75 * FALL)),
  'exponential': lambda u: (
    0.5 ** sum((u >= FALL * i / 10) for i in range(1, 11))
  ),
  'wsd': wsd,
}
JUMPS = {
  'step': FALL * np.array([0.5, 0.75]),
  'exponential': FALL * np.arange(1, 11) / 10,
  'wsd': np.array([FALL // 2]),
}


def exact_rates(name: str, t: np.ndarray) -> np.ndarray:
  """The rates at nominal steps in float64, from the formulas."""
  t = np.minimum(np.asarray(t, np.float64), STEPS)
  fall = EXACT[name](np.maximum(t - WARMUP, 0.0))
  return PEAK * np.where(t < WARMUP, t / WARMUP, fall)


def names_of(chain: str) -> list[str]:
  """The names of a chain's decays."""
  return [d if isinstance(d, str) else d['name'] for d in CHAINS[chain]]


def by_formula(chain: str) -> Read:
  """Computes the rates of all cycles and selects one, as the clock does."""
  schedules = [
    combine_warmup_decay_fn(
      STEPS, WARMUP, PEAK, 'linear', DECAYS.read('decay', decay)
    )
    for decay in CHAINS[chain]
  ]

  def read(cycle: jax.Array, t: jax.Array) -> jax.Array:
    t = jnp.minimum(t, STEPS)
    rates = jnp.stack([jnp.asarray(s(t), jnp.float32) for s in schedules])
    return jax.lax.dynamic_index_in_dim(rates, cycle, keepdims=False)

  return read


def by_table(chain: str) -> Read:
  """Interpolates linearly between entries, each the formula rounded once."""
  steps = np.arange(STEPS + 2)  # one more, so that there is always a next one
  table = np.stack([exact_rates(name, steps) for name in names_of(chain)])
  table = jnp.asarray(table, jnp.float32)

  def read(cycle: jax.Array, t: jax.Array) -> jax.Array:
    t = jnp.minimum(jnp.asarray(t, jnp.float32), STEPS)
    below = jnp.floor(t)
    i = below.astype(jnp.int32)
    low, high = table[cycle, i], table[cycle, i + 1]
    return low + (t - below) * (high - low)

  return read


WAYS = {'formula': by_formula, 'table': by_table}


def errors(chain: str, way: str, pace: float) -> dict[str, float]:
  """Largest errors as shares of the peak, and how many are above 1e-6."""
  t = np.arange(int(STEPS / pace), dtype=np.float32) * np.float32(pace)
  read = jax.jit(jax.vmap(WAYS[way](chain), in_axes=(None, 0)))
  away, near, many = 0.0, 0.0, 0
  for cycle, name in enumerate(names_of(chain)):
    found = np.asarray(read(cycle, t), np.float64)
    error = np.abs(found - exact_rates(name, t)) / PEAK
    jumps = np.append(JUMPS.get(name, ()), np.inf) + WARMUP
    is_near = np.min(np.abs(t[:, None] - jumps), axis=1) <= 1
    away = max(away, error[~is_near].max())
    near = max(near, error[is_near].max(initial=0.0))
    many += int(np.sum(error > 1e-6))
  return {'away from jumps': away, 'at jumps': near, 'above 1e-6': many}


def different_bits(chain: str, way: str) -> int:
  """How many rates of the static chain differ from the step's at pace 1."""
  read = WAYS[way](chain)
  steps = np.arange(3 * STEPS, dtype=np.int32)
  static = jax.jit(
    jax.vmap(lambda step: read(step // STEPS, step - step // STEPS * STEPS))
  )(steps)
  clocked = jax.jit(lambda c, t: jax.lax.map(lambda x: read(*x), (c, t)))(
    steps // STEPS, (steps % STEPS).astype(np.float32)
  )
  bits = [np.asarray(rates).view(np.int32) for rates in (static, clocked)]
  return int(np.sum(bits[0] != bits[1]))


def adamw_step(read: Read) -> tuple[Callable, tuple]:
  """A compiled step of AdamW with the clock as argument, and its arguments."""
  inner = optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(0.1))

  def step(
    cycle: jax.Array, t: jax.Array, state: optax.OptState, params: jax.Array
  ) -> tuple:
    updates, state = inner.update(0.1 * params, state, params)
    return t + 0.73, state, params - read(cycle, t) * updates

  params = jnp.ones(PARAMETERS)
  args = (jnp.int32(1), jnp.float32(0), inner.init(params), params)
  return jax.jit(step).lower(*args).compile(), args


def step_times(chain: str) -> dict[str, dict]:
  """Time per step, both ways in alternating blocks, and the ratio per pair."""
  steps = {way: adamw_step(make(chain)) for way, make in WAYS.items()}
  times = {way: [] for way in WAYS}

  def block(way: str) -> float:
    step, (cycle, t, state, params) = steps[way]
    start = time.perf_counter()
    for _ in range(STEPS_PER_BLOCK):
      t, state, params = step(cycle, t, state, params)
    jax.block_until_ready(params)
    return (time.perf_counter() - start) / STEPS_PER_BLOCK

  for way in WAYS:
    block(way)
  for pair in range(PAIRS):
    for way in sorted(WAYS, reverse=bool(pair % 2)):
      times[way].append(block(way))
  ratios = np.divide(times['table'], times['formula']).tolist()
  return {
    **{
      f'step by {w}': summary([1e6 * s for s in times[w]], 'µs') for w in WAYS
    },
    'step by table, ratio to formula': summary(ratios, '1'),
  }


def read_times(chain: str) -> dict[str, dict]:
  """Nanoseconds to read one rate, in a compiled loop, both ways in turn."""

  def loop(read: Read) -> Callable:
    def body(i: jax.Array, total: jax.Array) -> jax.Array:
      return total + read(i % 3, i.astype(jnp.float32) * 0.73 + total)

    return jax.jit(lambda: jax.lax.fori_loop(0, READS, body, jnp.float32(0)))

  loops = {way: loop(make(chain)) for way, make in WAYS.items()}
  times = {way: [] for way in WAYS}
  for _ in range(PAIRS + 1):
    for way, run in loops.items():
      start = time.perf_counter()
      jax.block_until_ready(run())
      times[way].append((time.perf_counter() - start) / READS * 1e9)
  return {f'read by {w}': summary(times[w][1:], 'ns') for w in WAYS}


def sizes(chain: str, way: str) -> dict[str, int]:
  """Instructions of the compiled step; bytes of the tables it reads."""
  compiled, _ = adamw_step(WAYS[way](chain))
  lines = [line for line in compiled.as_text().splitlines() if ' = ' in line]
  entries = 3 * (STEPS + 2) if way == 'table' else 0
  return {'instructions': len(lines), 'table bytes': 4 * entries}


def measure() -> dict[str, dict]:
  """All figures, by chain."""
  return {
    chain: {
      'errors, as shares of the peak': {
        f'{way}, pace {pace}': errors(chain, way, pace)
        for pace in PACES
        for way in WAYS
      },
      'bits that differ between static chain and step': {
        way: different_bits(chain, way) for way in WAYS
      },
      'program': {way: sizes(chain, way) for way in WAYS},
      'times': {**step_times(chain), **read_times(chain)},
    }
    for chain in CHAINS
  }


def main() -> None:
  """Measures, prints, and writes the file."""
  parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
  name = f'rate_tables_{jax.default_backend()}.json'
  default = pathlib.Path(__file__).parent / 'results' / name
  parser.add_argument('--out', type=pathlib.Path, default=default)
  out = parser.parse_args().out
  result = {'versions': versions(), 'figures': measure()}
  text = json.dumps(result, indent=2) + '\n'
  print(text)
  out.write_text(text)


if __name__ == '__main__':
  main()

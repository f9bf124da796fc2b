"""How the cost of a reset and of control grows: parameters, leaves, devices.

  .venv/bin/python benchmarks/scale.py [--largest=1e8] [--out=FILE]
    [--document=docs/scale.md]

Measured: resets of models of 1e5 to 1e8 parameters on one device, resets of
models of 8 to 128 leaves, and what an evaluation puts on 1 to 8 virtual devices.
Extrapolated from the slopes, and labelled so: 1e10 parameters and 1,024
  devices.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from machine import versions
from memory import LargestModel, renew
from model_sizes import as_table
from reset_cycles import soft_reset
from reset_cycles.control import decide
from reset_cycles.control.state import Target, to_words
from reset_cycles.mini_algoperf import files, spec
from reset_cycles.schedule_params import THESIS, make_rules
from reset_cycles.training import resetting
from reset_cycles.training.devices import JitDevices
from reset_cycles.training.records import Records
from reset_cycles.training.resetting import Model
from reset_cycles.training.set_up import set_up

RESETS = 5
PUTS = 300
LEAVES = (8, 32, 128)
DEVICES = (1, 2, 4, 8)
TARGET_PARAMETERS, TARGET_DEVICES = 1e10, 1024


class Blocks(LargestModel):
  """A model of leaves of equal size."""

  def __init__(self, parameters: int, leaves: int) -> None:
    """Splits about this many parameters over this many leaves."""
    super().__init__(4096)
    width = max(parameters // leaves, 1)
    self.shapes = {f'{i:03}': (width,) for i in range(leaves)}
    self._param_shapes = jax.tree_util.tree_map(
      spec.ShapeTuple, self.shapes, is_leaf=lambda x: isinstance(x, tuple)
    )

  def initial(self, rng: jax.Array) -> dict[str, jax.Array]:
    """Uniform values."""
    (width,) = self.shapes['000']
    block = jax.random.uniform(rng, (len(self.shapes), width))
    return {name: block[i] for i, name in enumerate(self.shapes)}


def least(fn: Callable[[], Any], count: int) -> float:
  """Seconds of the fastest of `count` calls; other work only adds to it."""
  times = []
  for _ in range(count):
    start = time.perf_counter()
    jax.block_until_ready(fn())
    times.append(time.perf_counter() - start)
  return min(times)


def reset_seconds(parameters: int, leaves: int) -> float:
  """Seconds of a whole reset with AdamW, with checks; the least of RESETS."""
  keys = jax.random.split(jax.random.PRNGKey(0), 2)
  workload = Blocks(parameters, leaves)
  params, _ = workload.init_model_fn(keys[0])
  saved, setup = set_up(workload, params, None, THESIS, Records(None), keys[1])
  fresh = setup.fresh_models.take(0)
  held = [Model(setup.devices.place(params), None, saved.inner.inner)]
  inner, half = setup.inners[0], soft_reset.Reset(0.5, 0.75, True)

  def reset() -> Model:
    ops = setup.reset_ops
    resetting.is_finite(held[0], inner, ops)
    held[0] = resetting.model_reinit_schedule(held[0], fresh, half, inner, ops)
    return held[0]

  return least(reset, RESETS)


def control_seconds() -> float:
  """Seconds to put the control's words on the devices after an evaluation."""
  devices, rules = JitDevices(), _rules()
  return least(lambda: devices.put(to_words(decide.start(rules))), PUTS)


def _rules() -> decide.Rules:
  return make_rules(1000, THESIS, Target('validation/metric', 1.0, True))


def on_devices(count: int) -> float:
  """`control_seconds` in a process with `count` virtual devices."""
  flag = f'--xla_force_host_platform_device_count={count}'
  done = subprocess.run(
    [sys.executable, __file__, '--control'],
    check=True,
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, 'XLA_FLAGS': flag},
  )
  return json.loads(done.stdout)


def line(xs: Sequence[float], ys: Sequence[float]) -> dict[str, float]:
  """Least squares with relative errors: y = fixed + slope * x."""
  slope, fixed = np.polyfit(xs, ys, 1, w=1 / np.asarray(ys))
  return {'fixed': float(fixed), 'slope': float(slope)}


def measure(largest: float) -> dict[str, Any]:
  """All measurements, and the lines fitted to them."""
  sizes = [int(10**e) for e in np.arange(5, np.log10(largest) + 0.01, 0.5)]
  by_size = {n: reset_seconds(n, 8) for n in sizes}
  by_leaves = {n: reset_seconds(10**6, n) for n in LEAVES}
  by_devices = {n: on_devices(n) for n in DEVICES}
  return {
    'seconds by parameters, 8 leaves': by_size,
    'seconds by leaves, 1e6 parameters': by_leaves,
    'seconds of control by devices': by_devices,
    'lines': {
      'parameters': line(list(by_size), list(by_size.values())),
      'leaves': line(list(by_leaves), list(by_leaves.values())),
      'devices': line(list(by_devices), list(by_devices.values())),
    },
  }


def tables(figures: Mapping[str, Any]) -> dict[str, str]:
  """The document's tables: measured, extrapolated, versions."""
  lines = figures['lines']
  rows = [
    [f'{name.split(" by ")[1]}: {float(x):,.0f}', f'{1e3 * seconds:.3g}']
    for name, row in figures.items()
    if name != 'lines'
    for x, seconds in row.items()
  ]
  per = lines['parameters']['slope']
  leaf, device = lines['leaves']['slope'], lines['devices']['slope']
  whole = per * TARGET_PARAMETERS
  extrapolated = [
    ['reset, per parameter', f'{per * 1e9:.3g} ns'],
    ['reset, per leaf', f'{leaf * 1e6:.3g} µs'],
    ['control, per local device', f'{device * 1e6:.3g} µs'],
    ['reset of 1e10 parameters, replicated (no device can)', f'{whole:.3g} s'],
    [
      'the same, spread over 1,024 devices',
      f'{1e3 * whole / TARGET_DEVICES:.3g} ms and the leaves',
    ],
    [
      'control of an evaluation, 1,024 devices in one process',
      f'{1e3 * (lines["devices"]["fixed"] + device * TARGET_DEVICES):.3g} ms',
    ],
    [
      'the same, 8 devices in each of 128 processes',
      f'{1e3 * (lines["devices"]["fixed"] + device * 8):.3g} ms',
    ],
  ]
  return {
    'measured': as_table(['what', 'ms'], rows),
    'extrapolated': as_table(['what', 'by the slopes'], extrapolated),
    'versions': ', '.join(f'{k} {v}' for k, v in versions().items()) + '.',
  }


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--largest', type=float, default=1e8)
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  parser.add_argument('--document', type=pathlib.Path, help='tables to renew')
  parser.add_argument('--control', action='store_true', help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.control:
    print(json.dumps(control_seconds()))
    return
  figures = measure(args.largest)
  written = tables(figures)
  for name, text in written.items():
    print(f'{name}\n\n{text}\n')
  if args.out:
    saved = {'versions': versions(), 'figures': figures}
    files.write_whole(args.out, json.dumps(saved, indent=2) + '\n')
  if args.document:
    renew(args.document, written)


if __name__ == '__main__':
  main()

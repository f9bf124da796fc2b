"""The memory that a reset and its set-up need, calculated and measured.

  .venv/bin/python benchmarks/memory.py [--out=FILE] [--document=FILE]

On paper: the benchmark's eight workloads on 8 devices of 16 GB. Planned: what
XLA reserves for the operations of a reset at the size of the largest model,
which allocates nothing. Measured: set-up and reset of a model of that shape at
a fraction of its size, each in its own process. Linux only (/proc); the largest
measurement needs 5 GB.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from machine import versions
from model_sizes import (
  FLOAT,
  SIZES,
  as_table,
  megabytes,
  on_paper,
  paper_table,
)
from reset_cycles import soft_reset
from reset_cycles.mini_algoperf import spec
from reset_cycles.optimizers.inner import Slots
from reset_cycles.schedule_params import THESIS
from reset_cycles.training import reset_checks, resetting
from reset_cycles.training.devices import JitDevices
from reset_cycles.training.records import Records
from reset_cycles.training.resetting import Model
from reset_cycles.training.set_up import Setup, set_up

FRACTIONS = (16, 8, 4)  # the embedding table is cut to 1/16, 1/8 and 1/4
RESETS = 3

Cost = dict[str, float]  # seconds, and bytes of memory


def layer_shapes(widths: Sequence[int]) -> list[tuple[int, ...]]:
  """The shapes of kernels and biases of dense layers of these widths."""
  return [shape for n, m in zip(widths, widths[1:]) for shape in ((n, m), (m,))]


def tree_shapes(fraction: int) -> dict[str, tuple[int, ...]]:
  """Shapes of the largest model's leaves, with 1/`fraction` of its table."""
  table = (4_194_304 // fraction, 128)
  bottom = layer_shapes((13, 512, 256, 128))
  top = layer_shapes((506, 1024, 1024, 512, 256, 1))
  return {f'{i:02}': s for i, s in enumerate([table, *bottom, *top])}


class LargestModel(spec.Workload):
  """The largest model without a task: its leaves and their initialisation."""

  step_hint = 30
  target_metric_name = 'loss'
  validation_target_value = 0.1

  def __init__(self, fraction: int) -> None:
    """Cuts the table to 1/`fraction`."""
    super().__init__()
    self.shapes = tree_shapes(fraction)
    self._param_shapes = jax.tree_util.tree_map(
      spec.ShapeTuple, self.shapes, is_leaf=lambda x: isinstance(x, tuple)
    )

  def has_reached_validation_target(self, results: Mapping[str, float]) -> bool:
    """Whether the loss, which falls, is beyond the target."""
    return results['validation/loss'] < self.validation_target_value

  def initial(self, rng: jax.Array) -> dict[str, jax.Array]:
    """Uniform values, the table by its scale, as in the benchmark's model."""
    keys = jax.random.split(rng, len(self.shapes))
    scale = 1 / math.sqrt(self.shapes['00'][0])
    return {
      name: jax.random.uniform(key, shape) * (scale if name == '00' else 1.0)
      for key, (name, shape) in zip(keys, self.shapes.items())
    }

  def init_model_fn(self, rng: jax.Array) -> tuple[Any, None]:
    """Fresh parameters, laid out, and None for batch statistics."""
    params = jax.jit(self.initial)(rng)
    return JitDevices().put(params), None

  def model_fn(
    self,
    params: Any,
    batch: Any,
    model_state: Any,
    mode: spec.ForwardPassMode,
    rng: jax.Array,
    update_batch_norm: bool,
  ) -> tuple[Any, Any]:
    """Nothing is trained here."""
    raise NotImplementedError('Only set-up and reset are measured.')

  loss_fn = model_fn


# A workload's methods for data and evaluations are left out.
LargestModel.__abstractmethods__ = frozenset()


def status(key: str) -> int:
  """Memory of this process in bytes: VmRSS now, VmHWM the most so far."""
  text = pathlib.Path('/proc/self/status').read_text()
  return int(re.search(rf'{key}:\s+(\d+) kB', text)[1]) * 1024


def watched(fn: Callable[..., Any], *args: Any) -> tuple[Any, Cost]:
  """fn's result, and the time and memory that it took."""
  pathlib.Path('/proc/self/clear_refs').write_text('5')  # resets VmHWM
  before, start = status('VmRSS'), time.perf_counter()
  result = fn(*args)
  jax.block_until_ready(result)
  seconds = time.perf_counter() - start
  time.sleep(1)  # XLA frees memory in another thread.
  return result, {
    'seconds': seconds,
    'kept': status('VmRSS') - before,
    'at most': status('VmHWM') - before,
  }


def measure(fraction: int) -> dict[str, int | Cost]:
  """Measures set-up and resets of one model, in this process."""
  keys = jax.random.split(jax.random.PRNGKey(0), 2)
  workload = LargestModel(fraction)
  # Makes XLA load what it loads once, so that it does not count for the model.
  small = LargestModel(4096)
  set_up(
    small,
    *small.init_model_fn(keys[0]),
    THESIS,
    Records(None),
    keys[1],
  )
  jax.clear_caches()
  (params, _), init = watched(workload.init_model_fn, keys[0])
  slots = Slots((params, params), (), ())
  _, compiling = watched(
    resetting.compile_reset, params, None, slots, JitDevices()
  )
  (saved, setup), whole = watched(
    set_up,
    workload,
    params,
    None,
    THESIS,
    Records(None),
    keys[1],
  )
  model = Model(params, None, saved.inner.inner)
  del params, saved
  return {
    'parameters': sum(map(math.prod, workload.shapes.values())),
    'init_model_fn': init,
    'compile_reset': compiling,
    'set-up, compile_reset included': whole,
    'reset': measure_resets(model, setup),
  }


def measure_resets(model: Model, setup: Setup) -> Cost:
  """The median time and the largest memory of RESETS resets."""
  inner, ops = setup.inners[0], setup.reset_ops
  fresh = setup.fresh_models.take(0)

  def reset(model: Model) -> Model:
    resetting.is_finite(model, inner, ops)
    half = soft_reset.Reset(0.5, 0.75, True)
    return resetting.model_reinit_schedule(model, fresh, half, inner, ops)

  resets = []
  for _ in range(RESETS):
    model, figures = watched(reset, model)
    resets.append(figures)
  return {
    'seconds': statistics.median(r['seconds'] for r in resets),
    'kept': max(r['kept'] for r in resets),
    'at most': max(r['at most'] for r in resets),
  }


def planned() -> dict[str, int]:
  """Bytes that XLA reserves besides the old leaf at full size, by operation."""
  devices = JitDevices()
  shape = SIZES['criteo1tb'].largest
  leaf = jax.ShapeDtypeStruct(shape, jnp.float32)
  share = jax.ShapeDtypeStruct((), jnp.float32)
  kinds = {
    'blend': (soft_reset.blend, leaf, (leaf, share), True),
    'shrink': (soft_reset.shrink, leaf, (share,), True),
    'leaf_is_finite': (resetting.leaf_is_finite, leaf, (), False),
    'sample_all': (reset_checks.sample_all, [leaf], (), False),
  }
  figures = {}
  for name, (fn, tree, values, donate) in kinds.items():
    compiled = devices.compile(fn, tree, *values, donate=donate)
    figures[name] = _set_aside(compiled) - FLOAT * math.prod(shape)
  key = jax.ShapeDtypeStruct((2,), jnp.uint32)
  init = jax.jit(LargestModel(1).initial).lower(key).compile()
  figures['init_model_fn'] = _set_aside(init)
  return figures


def _set_aside(compiled: jax.stages.Compiled) -> int:
  plan = compiled.memory_analysis()
  return (
    plan.argument_size_in_bytes
    + plan.output_size_in_bytes
    + plan.temp_size_in_bytes
    - plan.alias_size_in_bytes
  )


def in_new_process(fraction: int) -> dict[str, int | Cost]:
  """`measure` in a new process, unaffected by earlier measurements."""
  command = [sys.executable, __file__, f'--measure={fraction}']
  done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
  return json.loads(done.stdout)


def planned_table(figures: Mapping[str, int]) -> str:
  """A table with a row per operation, MB."""
  rows = [[f'`{name}`', megabytes(size)] for name, size in figures.items()]
  return as_table(['operation', 'MB'], rows)


def measured_table(figures: Mapping[int, Mapping[str, Any]]) -> str:
  """A row per fraction and phase; memory in multiples of the model's size."""
  rows = []
  for fraction, row in figures.items():
    model = FLOAT * row['parameters']
    for phase, cost in list(row.items())[1:]:
      memory = [f'{cost[key] / model:.2f}' for key in ('kept', 'at most')]
      rows.append(
        [f'1/{fraction}', megabytes(model), phase, *memory]
        + [f'{cost["seconds"]:.2f}']
      )
  head = ['table', 'model, MB', 'phase', 'kept', 'at most', 'seconds']
  return as_table(head, rows)


def renew(document: pathlib.Path, tables: Mapping[str, str]) -> None:
  """Replaces tables in a document, each between comments with its name."""
  text = document.read_text()
  for name, table in tables.items():
    start, end = f'<!-- {name} -->\n', '<!-- end -->'
    before, after = text.split(start)
    text = f'{before}{start}{table}\n{end}{after.split(end, 1)[1]}'
  document.write_text(text)


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  parser.add_argument(
    '--document', type=pathlib.Path, help='where to renew the tables'
  )
  parser.add_argument('--measure', type=int, help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.measure:
    print(json.dumps(measure(args.measure)))
    return
  figures = {
    'on paper': {name: on_paper(size) for name, size in SIZES.items()},
    'planned': planned(),
    'measured': {f: in_new_process(f) for f in FRACTIONS},
  }
  tables = {
    'on paper': paper_table(),
    'planned': planned_table(figures['planned']),
    'measured': measured_table(figures['measured']),
    'versions': ', '.join(f'{k} {v}' for k, v in versions().items()) + '.',
  }
  for name, text in tables.items():
    print(f'{name}\n\n{text}\n')
  if args.out:
    text = json.dumps({'versions': versions(), 'figures': figures}, indent=2)
    args.out.write_text(text + '\n')
  if args.document:
    renew(args.document, tables)


if __name__ == '__main__':
  main()

"""The cost of a step compared with bare AdamW and one cosine, on `molecules`.

  .venv/bin/python benchmarks/step_cost.py [--blocks=5] [--pairs=300] [--out=FILE]

Both steps run in one process, in pairs of alternating order, and each is waited
for; there is a process for each generation and number of devices. In case noise
hides a difference, the compiled programs are compared: instructions, operations
and bytes, as XLA counts them. Also measured: the time of update_params without
the step, compilations after the first step, a reset compared with a step, and
the memory that XLA reserves for a reset.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax

from machine import versions
from overhead import Bench, PlainAdamW, reset_times, seconds
from reset_cycles import submission
from reset_cycles.mini_algoperf import files

WORKLOAD = 'molecules'
CASES = [('jit', 1), ('jit', 8), ('pmap', 1), ('pmap', 8)]
CALLS = 20_000
WARM_UP = 20


def block_of_pairs(
  ours: Callable[[], Any], plain: Callable[[], Any], pairs: int
) -> dict[str, float]:
  """Medians of one block's ratio and times, and the processor time's ratio."""
  ratios, steps, theirs, cpu = [], [], [], {ours: 0.0, plain: 0.0}
  for i in range(pairs):
    times = {}
    for update in (ours, plain) if i % 2 else (plain, ours):
      start = time.process_time()
      times[update] = seconds(update)
      cpu[update] += time.process_time() - start
    ratios.append(times[ours] / times[plain])
    steps.append(times[ours] * 1e3)
    theirs.append(times[plain] * 1e3)
  return {
    'ratio': statistics.median(ratios),
    'step, ms': statistics.median(steps),
    'plain step, ms': statistics.median(theirs),
    'ratio of processor time': cpu[ours] / cpu[plain],
  }


class Counted:
  """Counts compilations; never removed, as jax 0.4 has no public way to."""

  def __init__(self) -> None:
    self.count = 0
    jax.monitoring.register_event_duration_secs_listener(self._listen)

  def _listen(self, event: str, duration: float, **unused: Any) -> None:
    self.count += 'backend_compile' in event


def program_of(lowered: Any) -> dict[str, float]:
  """Instructions of a compiled step, and its costs as XLA estimates them."""
  compiled = lowered.compile()
  costs = compiled.cost_analysis()
  costs = costs[0] if isinstance(costs, list) else costs
  lines = compiled.as_text().splitlines()
  return {
    'instructions': sum(' = ' in line for line in lines),
    'operations': costs.get('flops', 0.0),
    'bytes': costs.get('bytes accessed', 0.0),
  }


def programs(bench: Bench, plain: PlainAdamW) -> dict[str, dict[str, float]]:
  """The figures of both compiled steps."""
  saved, run = bench.state
  batch = next(bench.batches)
  ours = (bench.params, bench.model_state, saved.inner, batch, bench.rng)
  theirs = (*plain.state, batch, bench.rng)
  return {
    'ours': program_of(run.setup.train_steps[0].lower(*ours)),
    'plain': program_of(plain.compiled.lower(*theirs)),
  }


def around_a_step(bench: Bench) -> dict[str, float]:
  """Microseconds of update_params with a step that takes no time.

  The least of ten rounds, since other work on the machine only adds to it.
  """
  saved, run = bench.state
  outcome = (bench.params, bench.model_state, saved.inner, run.step_metrics)
  idle = (lambda *_: outcome,) * len(run.setup.train_steps)
  run = run._replace(setup=run.setup._replace(train_steps=idle))
  arguments = {
    'workload': bench.workload,
    'current_param_container': bench.params,
    'current_params_types': None,
    'model_state': bench.model_state,
    'hyperparameters': None,
    'batch': None,
    'loss_type': None,
    'optimizer_state': (saved, run),
    'eval_results': [],
    'global_step': 1,
    'rng': bench.rng,
  }

  def least(fn: Callable[..., Any]) -> float:
    rounds = []
    for _ in range(10):
      start = time.perf_counter()
      for _ in range(CALLS // 10):
        fn(**arguments)
      rounds.append((time.perf_counter() - start) / (CALLS // 10) * 1e6)
    return min(rounds)

  return {
    'update_params without its step, µs': least(submission.update_params),
    'a call with these arguments, µs': least(lambda **unused: None),
  }


def reset_memory(bench: Bench) -> dict[str, float]:
  """The most bytes that an operation of a reset needs besides its operands."""
  largest = 0
  for program in bench.state[1].setup.reset_ops._programs.values():
    plan = program.memory_analysis()
    # Donated arrays are overwritten in place; arrays only read existed before.
    held = plan.alias_size_in_bytes or plan.argument_size_in_bytes
    extra = plan.argument_size_in_bytes - held + plan.temp_size_in_bytes
    extra += plan.output_size_in_bytes - plan.alias_size_in_bytes
    largest = max(largest, extra)
  leaves = jax.tree_util.tree_leaves(bench.params)
  shape_of = bench.devices.shape_of
  return {
    'beside the old leaf at most, bytes': largest,
    'largest leaf, bytes': max(4 * shape_of(leaf).size for leaf in leaves),
  }


def measure(generation: str, blocks: int, pairs: int) -> dict[str, Any]:
  """All figures of one case, in this process."""
  bench, counted = Bench(WORKLOAD, generation), Counted()
  compiled_before = counted.count
  for _ in range(WARM_UP):
    jax.block_until_ready(bench.update())
  compiled_after_step_1 = counted.count - compiled_before
  plain = PlainAdamW(bench)
  for _ in range(WARM_UP):
    jax.block_until_ready(plain())
  rows = [block_of_pairs(bench.update, plain, pairs) for _ in range(blocks)]
  medians = [row['ratio'] for row in rows]
  step = statistics.median(row['step, ms'] for row in rows)
  reset = statistics.median(reset_times(bench))
  return {
    'ratio, median of blocks': statistics.median(medians),
    'ratio, least and most of blocks': [min(medians), max(medians)],
    'blocks': rows,
    'programs': programs(bench, plain),
    'compilations after step 1': compiled_after_step_1,
    **around_a_step(bench),
    'reset, ms': reset,
    'reset, in steps': reset / step,
    **reset_memory(bench),
  }


def in_new_process(
  generation: str, devices: int, args: argparse.Namespace
) -> dict[str, Any]:
  """`measure` in a process with this many virtual devices."""
  flag = f'--xla_force_host_platform_device_count={devices}'
  command = [sys.executable, __file__, f'--case={generation}']
  command += [f'--blocks={args.blocks}', f'--pairs={args.pairs}']
  done = subprocess.run(
    command,
    check=True,
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, 'XLA_FLAGS': flag},
  )
  return json.loads(done.stdout)


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--blocks', type=int, default=5)
  parser.add_argument('--pairs', type=int, default=300)
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  parser.add_argument('--case', help=argparse.SUPPRESS)
  args = parser.parse_args()
  if args.case:
    print(json.dumps(measure(args.case, args.blocks, args.pairs)))
    return
  figures = {}
  for generation, devices in CASES:
    name = f'{generation}, {devices} device(s)'
    figures[name] = in_new_process(generation, devices, args)
    print(name, f'{figures[name]["ratio, median of blocks"]:.4f}', flush=True)
  settings = {'blocks': args.blocks, 'pairs': args.pairs, 'workload': WORKLOAD}
  saved = {'versions': versions(), 'settings': settings, 'figures': figures}
  if args.out:
    files.write_whole(args.out, json.dumps(saved, indent=2) + '\n')


if __name__ == '__main__':
  main()

"""The cost of the submission on a GPU, at OGBG's and WMT's real size.

  python benchmarks/gpu.py [--small] [--seconds=420] [--out=FILE]

One command, under eight minutes; needs jax (0.10 or newer), flax, optax, NumPy
and this project's folder. Batches are synthetic. For a message-passing network
(3.6 million parameters, 512 graphs) and a Transformer (133 million parameters,
128 pairs of 256 tokens), it measures the ratio of a step's time to that of a
bare AdamW step with one cosine, in pairs of alternating order; a soft reset;
and a snapshot of the parameters to the host and back. `--small` is for trying
out the script on a CPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import flax
import jax
import numpy as np
import optax


def _find_package() -> None:
  """Makes the folder around this script importable as `reset_cycles`."""
  if importlib.util.find_spec('reset_cycles') is None:
    root = pathlib.Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
      'reset_cycles', root / '__init__.py', submodule_search_locations=[root]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules['reset_cycles'] = module
    spec.loader.exec_module(module)


_find_package()

from gpu_models import Batch, Workload, graphs, sentences  # noqa: E402
from reset_cycles.schedule_params import THESIS  # noqa: E402
from reset_cycles.submission import make_submission  # noqa: E402


class Ours:
  """Takes a step of the submission at each call; `fail` ends a cycle."""

  def __init__(self, workload: Workload, on_devices: Any) -> None:
    """Sets up a run and takes one step, which compiles it."""
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    params = dataclasses.replace(
      THESIS, early_switching=True, budget_factor=100.0
    )
    self.functions = make_submission(params)
    self.workload, self.rng, self.batch = workload, keys[2], on_devices
    self.params, _ = workload.init_model_fn(keys[0])
    self.state = self.functions.init_optimizer_state(
      workload, self.params, None, None, keys[1]
    )
    self.step, self.evaluations = 0, []
    self()

  def __call__(self) -> Any:
    """The parameters after one more step."""
    self.state, self.params, _ = self.functions.update_params(
      workload=self.workload,
      current_param_container=self.params,
      current_params_types=None,
      model_state=None,
      hyperparameters=None,
      batch=self.batch,
      loss_type=None,
      optimizer_state=self.state,
      eval_results=self.evaluations,
      global_step=self.step,
      rng=self.rng,
    )
    self.step += 1
    return self.params

  def fail(self) -> None:
    """Makes the next step end the cycle, halfway to the target."""
    loss = {'validation/loss': float('inf'), 'validation/accuracy': 0.4}
    self.evaluations = [*self.evaluations, (self.step, loss)]


class Plain:
  """Takes a bare AdamW step with one cosine at each call."""

  def __init__(self, workload: Workload, on_devices: Any) -> None:
    """Initialises the model and takes one step, which compiles it."""
    optimizer = optax.adamw(optax.cosine_decay_schedule(1e-3, 1000))
    self.params, _ = workload.init_model_fn(jax.random.PRNGKey(0))
    self.state, self.batch = optimizer.init(self.params), on_devices

    def mean_loss(params: Any, batch: Batch) -> jax.Array:
      logits, _ = workload.model_fn(params, batch, None, 0, None, True)
      loss = workload.loss_fn(batch['targets'], logits)
      return loss['summed'] / loss['n_valid_examples']

    def update(params: Any, state: Any, batch: Batch) -> tuple[Any, Any]:
      grads = jax.grad(mean_loss)(params, batch)
      updates, state = optimizer.update(grads, state, params)
      return optax.apply_updates(params, updates), state

    self.update = jax.jit(update, donate_argnums=(0, 1))
    self()

  def __call__(self) -> Any:
    """The parameters after one more step."""
    self.params, self.state = self.update(self.params, self.state, self.batch)
    return self.params


def seconds(fn: Callable[[], Any]) -> float:
  """Wall time of a call, in seconds, until its result is ready."""
  start = time.perf_counter()
  jax.block_until_ready(fn())
  return time.perf_counter() - start


def spread(values: list[float]) -> dict[str, Any]:
  """Median, quartiles and number of measured values."""
  low, median, high = statistics.quantiles(values, n=4)
  return {'median': median, 'quartiles': [low, high], 'count': len(values)}


def measure(workload: Workload, budget: float) -> dict[str, Any]:
  """The figures of one model, measured in about `budget` seconds."""
  begun = time.perf_counter()
  batch = jax.device_put(workload.batch)
  ours, plain = Ours(workload, batch), Plain(workload, batch)
  for _ in range(3):
    seconds(ours), seconds(plain)
  ratios, steps = [], []
  while len(ratios) < 10 or (
    time.perf_counter() - begun < 0.7 * budget and len(ratios) < 1000
  ):
    pair = (ours, plain) if len(ratios) % 2 else (plain, ours)
    times = {update: seconds(update) for update in pair}
    ratios.append(times[ours] / times[plain])
    steps.append(times[ours] * 1e3)
  resets = []
  for _ in range(2):  # two cycles are left to begin
    ours.fail()
    resets.append(seconds(ours) * 1e3)
    seconds(ours)
  out = seconds(lambda: jax.device_get(ours.params)) * 1e3
  host = jax.device_get(ours.params)
  return {
    'parameters': sum(x.size for x in jax.tree_util.tree_leaves(ours.params)),
    'ratio of step times': spread(ratios),
    'step, ms': spread(steps),
    'reset and the step after it, ms': resets,
    'snapshot to the host, ms': out,
    'and back, ms': seconds(lambda: jax.device_put(host)) * 1e3,
  }


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--small', action='store_true', help='tiny models')
  parser.add_argument('--seconds', type=float, default=420.0, help='in all')
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  args = parser.parse_args()
  device = jax.devices()[0]
  figures: dict[str, Any] = {
    'versions': {
      'device': f'{device.platform}: {device.device_kind}',
      'devices': jax.device_count(),
      'small': args.small,
      **{m.__name__: m.__version__ for m in (jax, flax, optax, np)},
    }
  }
  for name, make in (('graphs', graphs), ('sentences', sentences)):
    figures[name] = measure(make(args.small), args.seconds / 2)
    print(name, json.dumps(figures[name], indent=2), flush=True)
  if args.out:
    args.out.write_text(json.dumps(figures, indent=2) + '\n')


if __name__ == '__main__':
  main()

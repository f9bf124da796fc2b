"""A step of ours compared with one of the benchmark's own baseline.

  PYTHON benchmarks/runner_cost.py [--pairs=300] [--blocks=5] [--out=FILE]

PYTHON is that of an environment in which either generation of AlgoPerf is
installed with its runner. The calls are the runner's (data_selection, then
update_params with its arguments), on `ogbg` with the batches of the benchmark's
own fake-batch test, 32 graphs. The two submissions take turns in one process,
in pairs of alternating order, and each step is waited for. If other work on the
machine hides a difference, the ratio of processor time is the better figure.
Under main of 2025-09-05 it ends with an error of the baseline's, which cannot
take a step there: it asks a dict for attributes.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any

BASELINES = {
  'algoperf': 'algorithms/baselines/self_tuning/jax_nadamw_full_budget.py',
  'algorithmic_efficiency': (
    'prize_qualification_baselines/self_tuning/jax_nadamw_full_budget.py'
  ),
}
WORKLOAD, BATCH_SIZE = 'ogbg', 32


def find_benchmark() -> tuple[str, pathlib.Path]:
  """The installed generation's package, and the folder of its runner."""
  for package in BASELINES:
    spec = importlib.util.find_spec(package)
    if spec is not None:
      return package, pathlib.Path(spec.origin).parents[1]
  sys.exit('Neither generation of the benchmark is installed here.')


def import_test(root: pathlib.Path, steps: int) -> Any:
  """The module of the benchmark's fake-batch test, with its flags parsed."""
  sys.path.insert(0, str(root))
  os.chdir(root)
  test = importlib.import_module('tests.reference_algorithm_tests')
  test.FLAGS(
    [
      'runner_cost',
      '--framework=jax',
      f'--workload={WORKLOAD}',
      f'--global_batch_size={BATCH_SIZE}',
      f'--num_train_steps={steps}',
      '--tuning_ruleset=self',
    ]
  )
  return test


def make_workload(test: Any) -> Any:
  """A workload with fake batches."""
  runner = test.submission_runner
  found = copy.deepcopy(runner.WORKLOADS[WORKLOAD])
  path = os.path.join(
    runner.BASE_WORKLOADS_DIR, found['workload_path'] + '_jax', 'workload.py'
  )
  name = found['workload_class_name']
  cls = runner.workloads.import_workload(path, name, return_class=True)
  arguments = (cls, WORKLOAD, 'jax', BATCH_SIZE, True, 1)
  return test._make_one_batch_workload(*arguments)


class Lane:
  """A run of one submission, step by step."""

  def __init__(self, test: Any, module: Any) -> None:
    """Sets up the run as the runner does."""
    import jax

    self.workload, self.module = make_workload(test), module
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    self.queue = self.workload._build_input_queue(
      keys[0], 'train', data_dir='', global_batch_size=BATCH_SIZE
    )
    self.params, self.model_state = self.workload.init_model_fn(keys[1])
    self.state = module.init_optimizer_state(
      self.workload, self.params, self.model_state, None, keys[2]
    )
    self.rng, self.step = keys[3], 0
    takes = inspect.signature(module.update_params)
    self.extra = (
      {'train_state': {}} if 'train_state' in takes.parameters else {}
    )

  def __call__(self) -> float:
    """Takes one step; returns the seconds until its parameters are ready."""
    import jax

    rng = jax.block_until_ready(jax.random.fold_in(self.rng, self.step))
    start = time.perf_counter()
    batch = self.module.data_selection(
      self.workload,
      self.queue,
      self.state,
      self.params,
      self.model_state,
      None,
      self.step,
      rng,
    )
    self.state, self.params, self.model_state = self.module.update_params(
      workload=self.workload,
      current_param_container=self.params,
      current_params_types=self.workload.model_params_types,
      model_state=self.model_state,
      hyperparameters=None,
      batch=batch,
      loss_type=self.workload.loss_type,
      optimizer_state=self.state,
      eval_results=[],
      global_step=self.step,
      rng=rng,
      **self.extra,
    )
    jax.block_until_ready(self.params)
    self.step += 1
    return time.perf_counter() - start


def measure(ours: Lane, baseline: Lane, pairs: int) -> dict[str, float]:
  """Medians of a block of pairs of steps, and the ratio of processor time."""
  ratios, times, cpu = [], {ours: [], baseline: []}, {ours: 0.0, baseline: 0.0}
  for i in range(pairs):
    found = {}
    for lane in (ours, baseline) if i % 2 else (baseline, ours):
      start = time.process_time()
      found[lane] = lane()
      cpu[lane] += time.process_time() - start
    ratios.append(found[ours] / found[baseline])
    for lane, value in found.items():
      times[lane].append(value * 1e3)
  return {
    'ratio': statistics.median(ratios),
    'ours, ms': statistics.median(times[ours]),
    'baseline, ms': statistics.median(times[baseline]),
    'ratio of processor time': cpu[ours] / cpu[baseline],
    'load average': os.getloadavg()[0],
  }


def main() -> None:
  """Measures, prints and, if asked to, saves."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--pairs', type=int, default=300)
  parser.add_argument('--blocks', type=int, default=5)
  parser.add_argument('--out', type=pathlib.Path, help='JSON file to write')
  args = parser.parse_args()
  out = args.out and args.out.absolute()
  package, root = find_benchmark()
  test = import_test(root, args.pairs * args.blocks + 10)
  # Not before the benchmark's own modules, which set up the devices.
  from machine import versions

  baseline = BASELINES[package].removesuffix('.py').replace('/', '.')
  ours = Lane(test, importlib.import_module('reset_cycles.submission'))
  theirs = Lane(test, importlib.import_module(baseline))
  for _ in range(5):
    ours(), theirs()
  blocks = [measure(ours, theirs, args.pairs) for _ in range(args.blocks)]
  saved = {
    'versions': {'package': package, **versions()},
    'settings': {
      'pairs': args.pairs,
      'workload': WORKLOAD,
      'B': BATCH_SIZE,
      'cores': os.cpu_count(),
    },
    'figures': {
      'ratio, median of blocks': statistics.median(b['ratio'] for b in blocks),
      'blocks': blocks,
    },
  }
  text = json.dumps(saved, indent=2)
  print(text)
  if out:
    out.write_text(text + '\n')


if __name__ == '__main__':
  main()

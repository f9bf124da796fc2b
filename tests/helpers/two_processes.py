"""A run of the tiny workload, and a loop, in one of several processes.

As a script: two_processes.py INDEX COUNT ADDRESS FOLDER. Each process writes the
parameters that it ends with to FOLDER/INDEX.npz and what it decided to
FOLDER/INDEX.json; the submission's own files go to FOLDER/INDEX.
"""

from __future__ import annotations

import json
import pathlib
import sys
import unittest.mock

import jax
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from helpers import fake_benchmark, loops
from helpers.runs import SWITCHING, column, new_driver
from reset_cycles.core import records

STEPS = 12


def global_batch(step, generation):
  """The batch of a step as a runner of several processes would hand it over."""
  batch = tiny_batch(step, generation)
  mesh = Mesh(np.asarray(jax.devices()), ('batch',))
  sharding = NamedSharding(mesh, PartitionSpec('batch'))
  return {
    name: jax.make_array_from_callback(x.shape, sharding, x.__getitem__)
    for name, x in batch.items()
  }


tiny_batch = fake_benchmark.batch_of_step


def train(folder):
  """The driver after all steps, and whether the cycles had run out."""
  with (
    unittest.mock.patch.object(fake_benchmark, 'batch_of_step', global_batch),
    unittest.mock.patch.object(records, 'find_folder', lambda _: folder),
  ):
    driver = new_driver(evaluations=SWITCHING)
    completes = driver.run(until=STEPS + 1)
  return driver, completes


def whole(tree):
  return multihost_utils.process_allgather(tree, tiled=True)


def train_loop():
  """What a loop says, and its state at the end; it is resumed after 7 steps.

  The parameters are spread over the devices of all processes. They are restored
  as they lay; the rest becomes NumPy arrays.
  """
  fresh, said, restored = loops.sharded(8), [], {}
  for first, last in ((0, 7), (7, 14)):
    cycles = loops.make(
      loops.SWITCHING, make_params=fresh, optimizer=optax.adamw
    )
    state = loops.start(cycles, fresh)._replace(**restored)
    state, events = loops.train(cycles, state, loops.EVALUATIONS, first, last)
    said += map(str, events)
    restored = {'params': state.params, 'opt_state': whole(state.opt_state)}
  return said, whole(state)


def main(index, count, address, folder):
  if int(count) > 1:
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    jax.distributed.initialize(address, int(count), int(index))
  assert jax.device_count() == 8
  own = pathlib.Path(folder, index)
  own.mkdir()
  driver, completes = train(own)
  control = driver.optimizer_state[1].control
  said, state = train_loop()
  trees = driver.params, driver.model_state, state
  leaves = jax.tree_util.tree_leaves(trees)
  np.savez(pathlib.Path(folder, f'{index}.npz'), *map(np.asarray, leaves))
  outcome = {
    'steps': driver.global_step,
    'completes': completes,
    'control': [repr(x) for x in jax.tree_util.tree_leaves(control)],
    'boundaries': column(own, 'global_step', event='cycle_start'),
    'taus': column(own, 'tau', event='reset'),
    'said': said,
    'files': sorted(path.name for path in own.iterdir()),
  }
  pathlib.Path(folder, f'{index}.json').write_text(json.dumps(outcome))


if __name__ == '__main__':
  main(*sys.argv[1:])

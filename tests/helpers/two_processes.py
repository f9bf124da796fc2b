"""A loop of one's own in one of several processes.

As a script: two_processes.py INDEX ADDRESS FOLDER, for each of two processes. It
writes the state that it ends with to FOLDER/INDEX.npz and what its events say to
FOLDER/INDEX.json.
"""

import json
import pathlib
import sys

import jax
import numpy as np
import optax
from jax.experimental import multihost_utils

from helpers import loops


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


def main(index, address, folder):
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.distributed.initialize(address, 2, int(index))
  assert jax.device_count() == 8
  said, state = train_loop()
  leaves = jax.tree_util.tree_leaves(state)
  np.savez(pathlib.Path(folder, f'{index}.npz'), *map(np.asarray, leaves))
  pathlib.Path(folder, f'{index}.json').write_text(json.dumps(said))


if __name__ == '__main__':
  main(*sys.argv[1:])

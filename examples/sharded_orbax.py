"""Parameters sharded over all devices, orbax checkpoints, a kill, a resumption.

You will see that a run killed half way goes on the same to the last bit.
"""

import signal
import tempfile
from multiprocessing.context import SpawnProcess as Process

import jax
import numpy as np
import orbax.checkpoint as ocp
import plain_jax
from common import TEST, spirals
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from reset_cycles import Cycles, State


def init(key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
  mesh = Mesh(np.array(jax.devices()), ('model',))
  sharded = NamedSharding(mesh, PartitionSpec('model'))
  whole = NamedSharding(mesh, PartitionSpec())
  layout = [(whole, sharded), (sharded, whole), (whole, whole)]
  return jax.jit(plain_jax.init, out_shardings=layout)(key)


def train(steps: int, folder: str, kill_at: int = -1) -> State:
  cycles = Cycles(num_steps=steps, make_params=init, target=0.99)
  params = init(jax.random.PRNGKey(1))
  state = State(params, cycles.optimizer.init(params))
  train_step = plain_jax.make_train_step(cycles)
  evaluate = jax.jit(plain_jax.loss_fn)
  with ocp.CheckpointManager(folder) as manager:
    if first := manager.latest_step() or 0:
      state = manager.restore(first, args=ocp.args.StandardRestore(state))
    for step in range(first, steps):
      if step == kill_at:
        signal.raise_signal(signal.SIGKILL)
      state, _ = cycles.before_step(step, state)
      # Waited for: where a CPU plays many devices, programs that run at the
      # same time may wait for each other's threads for ever.
      state = jax.block_until_ready(train_step(state, *spirals(step)))
      if (step + 1) % 10 == 0:
        loss, accuracy = evaluate(cycles.eval_params(state), *TEST)
        state, _ = cycles.after_evaluation(step + 1, loss, accuracy, state)
        manager.save(step + 1, args=ocp.args.StandardSave(state))
        manager.wait_until_finished()  # else the kill may come first
  return state


def main(steps: int = 600) -> tuple[int | None, bool]:
  with tempfile.TemporaryDirectory() as folder:
    arguments = steps, f'{folder}/killed', steps // 2 + 5
    child = Process(target=train, args=arguments)
    child.start()
    child.join()
    states = [train(steps, f'{folder}/{name}') for name in ('killed', 'whole')]
  same = all(map(np.array_equal, *map(jax.tree_util.tree_leaves, states)))
  return child.exitcode, same


if __name__ == '__main__':
  status, is_same = main()
  how = 'the same parameters' if is_same else 'OTHER parameters'
  print(
    f'Reached: a run killed half way (exit status {status}) goes on to {how} '
    'as an unbroken one, compared to the last bit.'
  )

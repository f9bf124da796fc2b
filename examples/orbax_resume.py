"""A loop with orbax checkpoints that is killed in mid-cycle and resumed.

You will see a child process being killed after 60 % of the steps, and this one
resuming from its last checkpoint. In orbax_resume.png the curves of an
uninterrupted run and of the resumed one coincide, and the last line says that
their final states are the same to the last bit.

  python examples/orbax_resume.py
"""

import multiprocessing
import os
import signal
import tempfile

import jax
import numpy as np
import orbax.checkpoint as ocp
import plain_jax
from common import History, draw, spirals

from reset_cycles import THESIS, Cycles, State


def train(
  num_steps: int, folder: str = '', kill_at: int = -1
) -> tuple[State, History]:
  chain = THESIS.override({'learning_rate': 0.01, 'weight_decay': 0.001})
  init = jax.jit(plain_jax.init)
  cycles = Cycles(chain, num_steps, make_params=init, target=0.99)
  params = init(jax.random.PRNGKey(1))
  state, first = State(params, cycles.optimizer.init(params)), 0
  checkpointer = ocp.PyTreeCheckpointer()
  saved = max(map(int, os.listdir(folder)), default=0) if folder else 0
  if saved:
    first, path = saved, f'{folder}/{saved}'
    state = checkpointer.restore(path, item=state)
    state = jax.tree_util.tree_map(jax.numpy.asarray, state)
    print(f'resuming from step {first}')
  train_step = plain_jax.make_train_step(cycles)
  history, every = History('killed' if folder else 'whole'), num_steps // 30
  for step in range(first, num_steps):
    if step == kill_at:
      os.kill(os.getpid(), signal.SIGKILL)
    state, events = cycles.before_step(step, state)
    history.saw(step, events, cycles.learning_rate(state))
    state = train_step(state, *spirals(step, count=64))
    if (step + 1) % every == 0:
      loss, accuracy = plain_jax.loss_fn(state.params, *spirals(2**31))
      history.metrics[step + 1] = float(accuracy)
      state, events = cycles.after_evaluation(step + 1, loss, accuracy, state)
      history.saw(step + 1, events)
      if folder:  # the optimizer's state has all that decisions depend on
        checkpointer.save(f'{folder}/{step + 1}', state)
  return state, history


def main(
  num_steps: int = 600, picture: str = 'orbax_resume.png'
) -> tuple[int, bool]:
  with tempfile.TemporaryDirectory() as folder:
    child = multiprocessing.get_context('spawn').Process(
      target=train, args=(num_steps, folder, int(0.6 * num_steps) + 1)
    )
    child.start()
    child.join()
    print(f'the child ended with signal {-child.exitcode}')
    state, resumed = train(num_steps, folder)
  whole_state, whole = train(num_steps)
  pairs = zip(*map(jax.tree_util.tree_leaves, (state, whole_state)))
  same = all(np.array_equal(a, b) for a, b in pairs)
  print('the same to the last bit' if same else 'DIFFERENT')
  draw(picture, [whole, resumed], target=0.99)
  return child.exitcode, same


if __name__ == '__main__':
  main()

"""Runs on as many devices as there are: one_device.py FOLDER.

Each case's final weights and events go to FOLDER/<case>.npz.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import jax
import numpy as np

from helpers.runs import (
  GENERATIONS,
  PARAMS,
  RACE,
  RACING,
  SWITCHING,
  make_checkpoint,
  new_driver,
  restore,
  trained_params,
)
from reset_cycles.core.optimizers import ScheduleFreeAdamW

CASES = {
  'finish': (PARAMS, SWITCHING, 6),
  # With weights of its own to be evaluated.
  'race': (
    dataclasses.replace(RACE, optimizer=ScheduleFreeAdamW()),
    RACING,
    20,
  ),
}


def train(case, generation):
  """Leaves at the end of a run that was killed in its middle; and decisions."""
  params, evaluations, step_hint = CASES[case]
  driver = new_driver(params, generation, evaluations, step_hint)
  middle = step_hint // 2
  driver.run(until=middle)
  restore(driver, make_checkpoint(driver), list(driver.eval_results))
  driver.run(until=2 * step_hint)
  control = driver.optimizer_state[1].control
  decided = np.array(
    [control.number, control.cycle, control.start, control.end]
  )
  leaves = jax.tree_util.tree_leaves(trained_params(driver))
  return [decided, *leaves]


def main(folder):
  for generation in GENERATIONS:
    for case in CASES:
      path = pathlib.Path(folder, f'{generation} {case}.npz')
      np.savez(path, *train(case, generation))


if __name__ == '__main__':
  main(sys.argv[1])

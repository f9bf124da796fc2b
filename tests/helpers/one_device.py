"""Runs on as many devices as there are: one_device.py FOLDER.

Each case's final weights and events go to FOLDER/<case>.npz.
"""

import dataclasses
import pathlib
import sys

import jax
import numpy as np

from helpers.runs import (
  GENERATIONS,
  PARAMS,
  SWITCHING,
  TIMED,
  TIMING,
  devices_of,
  make_checkpoint,
  new_driver,
  restore,
)
from reset_cycles.optimizers.schedule_free import ScheduleFreeMuon

# Settings, evaluations, step_hint, and the last step.
MUON = dataclasses.replace(PARAMS, optimizer=ScheduleFreeMuon())
CASES = {
  'finish': (PARAMS, SWITCHING, 6, 12),
  'timed': (TIMED, TIMING, 20, 36),
  'muon': (MUON, SWITCHING, 6, 12),
}


def train(case, generation):
  """Leaves at the end of a run that was killed in its middle; and decisions."""
  params, evaluations, step_hint, last = CASES[case]
  factor = {'jit': 1, 'pmap': 2}[generation]  # of the budget
  evaluations = {
    step: (loss, metric, *(factor * t for t in seconds))
    for step, (loss, metric, *seconds) in evaluations.items()
  }
  driver = new_driver(params, generation, evaluations, step_hint)
  driver.run(until=last // 4)
  restore(driver, make_checkpoint(driver), list(driver.eval_results))
  driver.run(until=last)
  control = driver.optimizer_state[1].control
  decided = np.array(
    [control.cycle, control.setting, control.start, control.end]
  )
  leaves = jax.tree_util.tree_leaves(devices_of(driver).get(driver.params))
  return [decided, *leaves]


def main(folder):
  for generation in GENERATIONS:
    for case in CASES:
      path = pathlib.Path(folder, f'{generation} {case}.npz')
      np.savez(path, *train(case, generation))


if __name__ == '__main__':
  main(sys.argv[1])

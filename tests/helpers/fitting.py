"""A workload of no time that the submission itself can train, for the runner."""

from __future__ import annotations

from helpers.fakes import FakeWorkload, write_submission

# 12 steps in three cycles, the second of which is left early or not.
SUBMISSION = """
import dataclasses

from reset_cycles.schedule_params import THESIS
from reset_cycles.submission import make_submission

(
  init_optimizer_state,
  update_params,
  prepare_for_eval,
  data_selection,
  get_batch_size,
) = make_submission(dataclasses.replace(THESIS, budget_factor=0.4))
"""


class FittingWorkload(FakeWorkload):
  """Its steps end a run, however busy the machine is."""

  name = 'fitting'
  eval_every_steps = 3
  max_allowed_runtime_sec = 10_000

  def __init__(self, generation='jit', **kwargs):
    super().__init__(generation, accuracy=lambda step: step / 20, **kwargs)


def write_fitting_submission(folder):
  """A package with our submission; returns its path as a flag takes it."""
  path = write_submission(folder)
  with open(path, 'w') as file:
    file.write(SUBMISSION)
  return path

"""Recorded runs, made up."""

from __future__ import annotations

import numpy as np

from reset_cycles.studies.real_runs.reading import RecordedRun, RecordedWorkload
from reset_cycles.studies.run_files import MetricTarget

# Metric 1.0 is to be reached; 100 steps and 100 seconds make a run.
RISING = RecordedWorkload(
  'up', MetricTarget('accuracy', 1.0, True), 100.0, 100.0
)
FALLING = RecordedWorkload(
  'down', MetricTarget('wer', 1.0, False), 100.0, 100.0
)


def make_run(seconds, metric, loss=None, trial=1, workload=RISING, **changes):
  """A run whose steps and seconds are equal; a loss of 1 if none is given."""
  seconds = np.array(seconds, float)
  run = RecordedRun(
    'v05',
    'external',
    'a',
    'study_0',
    workload,
    f'trial_{trial}',
    np.nan_to_num(seconds),
    seconds,
    np.ones(seconds.size) if loss is None else np.array(loss, float),
    np.array(metric, float),
  )
  return run._replace(**changes)

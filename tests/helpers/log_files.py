"""The files of a run, written by hand."""

from __future__ import annotations

import math

from reset_cycles.core.records import CYCLES, SETTINGS, as_plain
from reset_cycles.mini_algoperf import files
from reset_cycles.schedule_params import THESIS

STEP_HINT = 50  # three cycles of 34, 33 and 33 steps


def write_run(
  folder,
  events=(),
  metric=(0.9, 0.2, math.nan),
  params=THESIS,
  workload='digits',
  seed=1,
  step_hint=STEP_HINT,
):
  """The files of a run of 60 steps that was evaluated after 1, 30 and 60.

  Args:
    folder: is there.
    events: of cycles.csv, which has the columns that any of them has;
      without any, another submission was run.
    metric: at the evaluations.
    params: the chain.
    workload: its name.
    seed: of the run.
    step_hint: the workload's.
  """
  meta = {
    'workload.name': workload,
    'rng_seed': seed,
    'workload.target_metric_name': 'error_rate',
    'workload.validation_target_value': 0.03,
  }
  files.write_json(folder / 'meta_data_0.json', meta)
  flags = {
    'workload': workload,
    'rng_seed': seed,
    'experiment_name': 'peaks',
  }
  files.write_json(folder / 'flags_0.json', flags)
  rows = [
    {
      'global_step': step,
      'validation/error_rate': value,
      'accumulated_submission_time': step / 10,
    }
    for step, value in zip((1, 30, 60), metric)
  ]
  measured = [*rows[0], 'learning_rate']
  files.write_rows(folder / 'eval_measurements.csv', measured, rows)
  logged = [{'global_step': s, 'learning_rate': s / 1e4} for s in (1, 30)]
  last = {'global_step': 60}
  files.write_rows(
    folder / 'measurements.csv', measured, [*rows, *logged, last]
  )
  if events:
    settings = {'step_hint': step_hint, 'schedule_params': as_plain(params)}
    files.write_json(folder / SETTINGS, settings)
    columns = dict.fromkeys(name for event in events for name in event)
    files.write_rows(folder / CYCLES, list(columns), events)


# Cycle 1 is left after 20 steps; the other two share the remaining 80.
EVENTS = [
  {'global_step': 0, 'event': 'cycle_start', 'cycle': 1, 'pace': 1.0},
  {'global_step': 20, 'event': 'switch', 'cycle': 1, 'reason': 'loss rises'},
  {'global_step': 20, 'event': 'reset', 'cycle': 2, 'tau': 0.25},
  {'global_step': 20, 'event': 'cycle_start', 'cycle': 2, 'pace': 33 / 40},
]

"""The files of a run, written by hand."""

import math

from reset_cycles.engine.records import CYCLES, SETTINGS, as_plain
from reset_cycles.mini_algoperf import files
from reset_cycles.mini_algoperf.workloads import WORKLOADS
from reset_cycles.research.thesis.folders import RunLog
from reset_cycles.research.thesis.settings import RUNS
from reset_cycles.schedule_params import THESIS

_COLUMNS = ('global_step', 'accumulated_submission_time')
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
  flags = {'workload': workload, 'rng_seed': seed, 'experiment_name': 'peaks'}
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


# Cycle 1 is abandoned after 20 steps; the other two share the remaining 80.
EVENTS = [
  {'global_step': 0, 'event': 'cycle_start', 'cycle': 1, 'pace': 1.0},
  {'global_step': 20, 'event': 'abandon', 'cycle': 1, 'reason': 'loss rises'},
  {'global_step': 20, 'event': 'reset', 'cycle': 2, 'tau': 0.25},
  {'global_step': 20, 'event': 'cycle_start', 'cycle': 2, 'pace': 33 / 40},
]
_EVALUATION = {
  'event': 'evaluation',
  'cycle': 1,
  'global_step': 1,
  'loss': 2.0,
  'smoothed_loss': 2.0,
  'derivative': 0.0,
}
_FINISH = {'global_step': 60, 'event': 'finish', 'cycle': 2}


def write_log(folder, job, finished=True, step_hint=None):
  """Writes the files of one of the registry's runs into a new folder.

  Args:
    folder: is made.
    job: the run.
    finished: whether it has come to the end of its cycles.
    step_hint: the workload's own if None.
  """
  folder.mkdir(parents=True)
  if step_hint is None and job.workload in WORKLOADS:
    step_hint = WORKLOADS[job.workload].step_hint
  write_run(
    folder,
    [*EVENTS, _EVALUATION, *([_FINISH] if finished else [])],
    params=RUNS[job.run],
    workload=job.workload,
    seed=job.seed,
    step_hint=step_hint or STEP_HINT,
  )
  return RunLog(job, folder)


def write_trial(
  folder, rows, metric='accuracy', target=1.0, loss='loss', **meta
):
  """Writes a trial's files, as the benchmark does, into a new folder.

  Args:
    folder: is made.
    rows: (step, seconds, metric, loss) of each evaluation; may be none.
    metric, loss: their names.
    target: of the metric.
    **meta: further meta data of the workload.
  """
  folder.mkdir(parents=True)
  meta = {
    'target_metric_name': metric,
    'validation_target_value': target,
    'step_hint': 100,
    'max_allowed_runtime_sec': 100,
    **meta,
  }
  meta = {f'workload.{key}': value for key, value in meta.items()}
  files.write_json(folder / 'meta_data_0.json', meta)
  columns = [*_COLUMNS, f'validation/{metric}', f'validation/{loss}']
  path, rows = folder / 'eval_measurements.csv', list(rows)
  if rows:
    files.write_rows(path, columns, [dict(zip(columns, row)) for row in rows])
  return folder

"""Logs of the registry's runs, written by hand."""

from __future__ import annotations

from helpers.log_files import EVENTS, write_run
from reset_cycles.experiments.settings import RUNS
from reset_cycles.mini_algoperf.workloads import WORKLOADS
from reset_cycles.studies.thesis.logs import RunLog

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
  """Writes a run's files into a new folder.

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
    step_hint=step_hint or 50,
  )
  return RunLog(job, folder)

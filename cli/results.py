"""`soft-reset results`: measures the thesis' claims and writes RESULTS.md."""

from __future__ import annotations

import contextlib
import functools
import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import flags

from ..mini_algoperf import files, logger, metadata
from ..mini_algoperf.workloads import WORKLOADS
from ..studies.runs.table import read_run
from ..studies.thesis import results_text, run_logs, train
from ..studies.thesis.claims import CLAIMS
from ..studies.thesis.findings import Study
from ..studies.thesis.run_logs import Job, RunLog
from . import errors, flag_parsing, study_flags
from . import run as run_command
from .figures import log_roots

# As they are trained: with all of one seed's runs there, all claims are.
RUNS = tuple(dict.fromkeys(run for claim in CLAIMS for run in claim.runs))


class Plan(NamedTuple):
  """A command line that was checked."""

  roots: list[pathlib.Path]  # folders of logs, among them that of new runs
  new: pathlib.Path
  seeds: range
  out: pathlib.Path
  pack: pathlib.Path | None
  num_workers: int
  command: str


def run(arguments: Sequence[str]) -> int:
  """Runs the command; returns the exit status.

  Args:
    arguments: the command line after `soft-reset results`.

  Raises:
    errors.SetupError: for bad input, before anything is trained.
  """
  with contextlib.ExitStack() as stack:
    with errors.setup_phase():
      values = stack.enter_context(
        flag_parsing.parsed_flags(
          'soft-reset results', arguments, study_flags.RESULTS_FLAGS
        )
      )
      plan = make_plan(values)
      roots = stack.enter_context(run_logs.unpacked(plan.roots))
      logs = run_logs.find_logs(roots)
      jobs = wanted_jobs(plan.seeds)
      missing = run_logs.missing_jobs(jobs, logs)
      run_logs.check_places(missing, plan.new)
    train.train_all(
      missing,
      plan.new,
      plan.num_workers,
      functools.partial(train.train, command=run_command.run),
    )
    with errors.reading_logs():
      logs = run_logs.find_logs(roots)
      used = [log for log in logs if log.job in set(jobs)]
      files.write_whole(plan.out, measure(plan, used))
      if plan.pack is not None:
        run_logs.pack(logs, plan.pack)
  print(plan.out)
  return 0


def make_plan(values: flags.FlagValues) -> Plan:
  """Checks the flags.

  Args:
    values: parsed flags.

  Raises:
    ValueError: for a folder that isn't there.
  """
  out = pathlib.Path(values.out).expanduser()
  if not out.parent.is_dir():
    raise ValueError(f'--out={out}: there is no folder {out.parent}.')
  return Plan(
    roots=log_roots(values),
    new=pathlib.Path(values.runs).expanduser(),
    seeds=range(1, values.seeds + 1),
    out=out,
    pack=values.pack and pathlib.Path(values.pack).expanduser(),
    num_workers=values.workers,
    command=f'soft-reset results --seeds={values.seeds} --out={out}',
  )


def wanted_jobs(seeds: Iterable[int]) -> list[Job]:
  """The runs behind all claims on all workloads, seed by seed."""
  return [
    Job(workload, name, seed)
    for seed in seeds
    for name in RUNS
    for workload in WORKLOADS
  ]


def measure(plan: Plan, logs: Sequence[RunLog]) -> str:
  """Asks all claims of all workloads; returns the text of RESULTS.md.

  Args:
    plan: what was asked for.
    logs: the logs of all its jobs.
  """
  studies: dict[str, Study] = {
    workload: {name: {} for name in RUNS} for workload in WORKLOADS
  }
  for log in logs:
    job = log.job
    studies[job.workload][job.run][job.seed] = read_run(log.log_dir)
  results = {
    claim: {name: claim.ask(study) for name, study in studies.items()}
    for claim in CLAIMS
  }
  return results_text.results_text(_origin(plan, logs), results)


def _origin(plan: Plan, logs: Sequence[RunLog]) -> results_text.Origin:
  metas = [files.read_json(metadata.meta_data_path(x.log_dir)) for x in logs]
  rows = [files.read_rows(x.log_dir / logger.EVAL_MEASUREMENTS) for x in logs]
  seconds = sum(float(table[-1]['total_duration']) for table in rows)
  versions = {
    f'{name} {meta[f"{name}_version"]}'
    for meta in metas
    for name in ('jax', 'flax', 'optax')
  }
  return results_text.Origin(
    command=plan.command,
    num_runs=len(logs),
    seeds=tuple(plan.seeds),
    hours=seconds / 3600,
    versions=tuple(sorted(versions)),
    devices=tuple(sorted({meta['device_kind'] for meta in metas})),
  )

"""All claims asked of all workloads: from logs to the text of RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...mini_algoperf import files, logger, metadata
from ..runs.table import read_run
from . import results_text
from .claims import CLAIMS
from .findings import Study
from .run_logs import Job, RunLog

# What stands for the thesis' workloads, and digits.
WORKLOADS = ('digits', 'molecules', 'translation')
# As they are trained: with all of one seed's runs there, all claims are.
RUNS = tuple(dict.fromkeys(run for claim in CLAIMS for run in claim.runs))


def wanted_jobs(seeds: Iterable[int]) -> list[Job]:
  """The runs behind all claims on all workloads, seed by seed."""
  return [
    Job(workload, name, seed)
    for seed in seeds
    for name in RUNS
    for workload in WORKLOADS
  ]


def measure(command: str, seeds: Sequence[int], logs: Sequence[RunLog]) -> str:
  """Asks all claims of all workloads; returns the text of RESULTS.md.

  Args:
    command: what was typed.
    seeds: those that are measured.
    logs: of all runs behind the claims with these seeds.

  Raises:
    ValueError: if a log is damaged; the message names it.
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
  return results_text.results_text(origin_of(command, seeds, logs), results)


def origin_of(
  command: str, seeds: Sequence[int], logs: Sequence[RunLog]
) -> results_text.Origin:
  """What stands behind the numbers.

  Args:
    command: what was typed.
    seeds: those that are measured.
    logs: what was measured.
  """
  metas = [files.read_json(metadata.meta_data_path(x.log_dir)) for x in logs]
  rows = [files.read_rows(x.log_dir / logger.EVAL_MEASUREMENTS) for x in logs]
  seconds = sum(float(table[-1]['total_duration']) for table in rows)
  versions = {
    f'{name} {meta[f"{name}_version"]}'
    for meta in metas
    for name in ('jax', 'flax', 'optax')
  }
  return results_text.Origin(
    command=command,
    num_runs=len(logs),
    seeds=tuple(seeds),
    hours=seconds / 3600,
    versions=tuple(sorted(versions)),
    devices=tuple(sorted({meta['device_kind'] for meta in metas})),
  )

"""RESULTS.md: all claims asked of all workloads, from logs to the text."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ...mini_algoperf import files, logger
from ...views.pages import render
from ...views.paths import META_DATA, read_object
from ...views.run_files import RunTable, read_run
from . import registry as thesis
from .claims import CLAIMS, Finding
from .folders import Job, RunLog
from .measures import FAILED, GOOD
from .premises import PREMISES, Held, Premise, held

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


def measure(
  command: str,
  own: bool,
  logs: Sequence[RunLog],
  of_figures: Sequence[RunLog],
) -> str:
  """RESULTS.md: all claims asked of logs, and of the figures what they show.

  Args:
    command: that writes the page.
    own: whether the logs are those of the project.
    logs: of the runs behind the claims.
    of_figures: of the runs that figures show; a figure without logs is left
      out.
  """
  studies: dict[str, dict[str, dict[int, RunTable]]] = {
    workload: {name: {} for name in RUNS} for workload in WORKLOADS
  }
  for job, log_dir in logs:
    studies[job.workload][job.run][job.seed] = read_run(log_dir)
  figures = list(_figures(of_figures))
  results = [
    (claim, [claim.ask(study) for study in studies.values()])
    for claim in CLAIMS
  ]
  metas = [read_object(log.log_dir / META_DATA) for log in logs]
  rows = [files.read_rows(x.log_dir / logger.EVAL_MEASUREMENTS) for x in logs]
  seconds = sum(float(table[-1]['total_duration']) for table in rows)
  libraries = ('jax', 'flax', 'optax')
  found = {f'{n} {meta[f"{n}_version"]}' for meta in metas for n in libraries}
  return render(
    pathlib.Path(__file__).with_suffix('.txt'),
    command=command,
    own=own,
    num_runs=len(logs),
    seeds=sorted({log.job.seed for log in logs}),
    hours=seconds / 3600,  # of all runs
    versions=sorted(found),
    devices=sorted({meta['device_kind'] for meta in metas}),
    failed=FAILED,
    good=GOOD,
    workloads=WORKLOADS,
    real_data=sorted({f[1] for f in figures} & {*thesis.REAL_DATA}),
    results=results,
    outcomes=list(_outcomes([findings for _, findings in results])),
    figures=figures,
    measures=_measures,
  )


# What a claim's verdicts come to, in the order of the page's first lines.
_OUTCOMES = (
  'Hold on every workload that has such cycles:',
  'Hold on some workloads only:',
  'Undecided:',
  'Hold nowhere, and fail on a workload or more:',
)


def _outcome(findings: Sequence[Finding]) -> str:
  """One of `_OUTCOMES`; a workload without a seed that is asked has no say."""
  verdicts = {found.verdict for found in findings if any(found.counts[:2])}
  every, some, undecided, never = _OUTCOMES
  if 'holds' in verdicts:
    return every if verdicts == {'holds'} else some
  return never if 'does not hold' in verdicts else undecided


def _outcomes(
  results: Sequence[Sequence[Finding]],
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
  """Each outcome, with its claims' numbers, from 1, and their seeds' votes."""
  said = [
    (n, _outcome(found), _votes(found)) for n, found in enumerate(results, 1)
  ]
  for outcome in _OUTCOMES:
    if claims := [(n, votes) for n, own, votes in said if own == outcome]:
      yield outcome, claims


def _votes(findings: Sequence[Finding]) -> str:
  """Seeds for and against on each workload with any, as 'digits 10 : 0.'."""
  counts = zip(WORKLOADS, (finding.counts for finding in findings))
  asked = [f'{name} {a} : {b}' for name, (a, b, _) in counts if a + b]
  return f'{", ".join(asked)}.' if asked else 'No such cycle anywhere.'


def _figures(
  logs: Sequence[RunLog],
) -> Iterator[tuple[str, str, Premise, Held]]:
  """Name, workload, premise and seeds of each figure of runs, not of plans.

  A figure comes with its stand-in, and with real data where it has been run.
  """
  read = functools.cache(read_run)
  for name, figure in thesis.FIGURES.items():
    if figure.shows == 'schedule':
      continue
    for workload in (figure.workload.stand_in, *thesis.REAL_DATA):
      runs = {
        run: [read(x.log_dir) for x in logs if x.job[:2] == (workload, run)]
        for run in figure.runs
      }
      if figure.is_drawn_for(workload) and all(runs.values()):
        yield name, workload, PREMISES[name], held(name, runs)


def _measures(findings: Sequence[Finding]) -> Iterator[tuple[str, list[str]]]:
  """A row per measure that any workload has: its name, and a cell for each."""
  found = [dict(finding.measures) for finding in findings]
  for name in dict.fromkeys(name for own in found for name in own):
    if any(own.get(name) for own in found):
      yield name, [describe_values(own.get(name, ())) for own in found]


def describe_values(values: Sequence[float]) -> str:
  """'median (lower to upper quartile)', or 'none'."""
  if not values:
    return 'none'
  numbers = np.asarray(values, float)
  # Between a number and infinity there is nothing to interpolate.
  is_finite = bool(np.isfinite(numbers).all())
  low, middle, high = (
    'never' if math.isinf(value) else f'{value:.3g}'
    for value in np.quantile(
      numbers,
      (0.25, 0.5, 0.75),
      method='linear' if is_finite else 'inverted_cdf',
    )
  )
  return middle if low == high else f'{middle} ({low} to {high})'

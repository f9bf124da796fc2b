"""RESULTS.md: all claims asked of all workloads, from logs to the text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import logger, metadata
from ..paths import read_object, read_rows
from ..run_files import RunTable, read_run
from .claims import CLAIMS, FAILED, GOOD, Claim, Finding
from .logs import Job, RunLog

# What stands for the thesis' workloads, and digits.
WORKLOADS = ('digits', 'molecules', 'translation')
# As they are trained: with all of one seed's runs there, all claims are.
RUNS = tuple(dict.fromkeys(run for claim in CLAIMS for run in claim.runs))


class Origin(NamedTuple):
  """What stands behind the numbers."""

  command: str
  num_runs: int
  seeds: tuple[int, ...]
  hours: float  # sum of the runs' durations
  versions: tuple[str, ...]  # of libraries, as the runs recorded them
  devices: tuple[str, ...]  # likewise, kinds of devices


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
  studies: dict[str, dict[str, dict[int, RunTable]]] = {
    workload: {name: {} for name in RUNS} for workload in WORKLOADS
  }
  for log in logs:
    job = log.job
    studies[job.workload][job.run][job.seed] = read_run(log.log_dir)
  results = {
    claim: {name: claim.ask(study) for name, study in studies.items()}
    for claim in CLAIMS
  }
  return results_text(origin_of(command, seeds, logs), results)


def origin_of(
  command: str, seeds: Sequence[int], logs: Sequence[RunLog]
) -> Origin:
  """What stands behind the numbers.

  Args:
    command: what was typed.
    seeds: those that are measured.
    logs: what was measured.
  """
  metas = [read_object(metadata.meta_data_path(x.log_dir)) for x in logs]
  rows = [read_rows(x.log_dir / logger.EVAL_MEASUREMENTS) for x in logs]
  seconds = sum(float(table[-1]['total_duration']) for table in rows)
  versions = {
    f'{name} {meta[f"{name}_version"]}'
    for meta in metas
    for name in ('jax', 'flax', 'optax')
  }
  return Origin(
    command=command,
    num_runs=len(logs),
    seeds=tuple(seeds),
    hours=seconds / 3600,
    versions=tuple(sorted(versions)),
    devices=tuple(sorted({meta['device_kind'] for meta in metas})),
  )


def results_text(
  origin: Origin, results: Mapping[Claim, Mapping[str, Finding]]
) -> str:
  """The whole file.

  Args:
    origin: see there.
    results: for each claim and workload what was found.
  """
  lines = [
    '# Does the thesis hold?',
    '',
    *_introduction(origin),
    '',
    *_summary(results),
  ]
  for number, (claim, by_workload) in enumerate(results.items(), start=1):
    lines += ['', f'## {number}. {claim.sentence}', '']
    lines += [*_wrapped(claim.question), '']
    lines += [f'Runs: {", ".join(f"`{run}`" for run in claim.runs)}.', '']
    lines += _table(by_workload)
  return '\n'.join(lines) + '\n'


def _introduction(origin: Origin) -> Iterator[str]:
  yield from _wrapped(
    'Measured on the small workloads of `mini_algoperf`, which stand in for '
    "the benchmark's: nothing here is a result on AlgoPerf. The numbers are "
    'medians over seeds with the lower and the upper quartile; failures are '
    'among them. This file is written by a command:'
  )
  yield from ('', f'    {origin.command}', '')
  seeds = f'{origin.seeds[0]} to {origin.seeds[-1]}'
  yield from _wrapped(
    f'Behind it are {origin.num_runs} runs, seeds {seeds}, whose logs come with '
    'the project. With `--noshipped` the same command trains them all anew, two '
    f'at a time, a core each: about {origin.hours / 2:.1f} hours on two cores '
    f'({origin.hours:.1f} hours of training and evaluation in all). Trained '
    f'with {", ".join(origin.versions)} on {", ".join(origin.devices)}.'
  )
  yield ''
  yield from _wrapped(
    'The way of a run leads from the untrained model to the target. A cycle '
    f'that ends within the first {100 * FAILED:g} % of it has failed, '
    f'one that has gone {100 * GOOD:g} % of it is good. A seed without the '
    'cycle that a question is about counts neither way. A reset is recovered '
    'from when 95 % of the way to the last evaluation before it is regained; '
    'this is counted in evaluations; "never" is not before the next reset, and '
    'counts as one evaluation more than there were. Where a seed is asked about '
    'several resets, its vote is that of their mean. A '
    'verdict is that of a two-sided sign test at 5 % over the seeds for and '
    'against a claim, which stand behind it; without enough of them it is '
    'undecided.'
  )


def _wrapped(text: str) -> list[str]:
  return textwrap.wrap(text, 80, break_on_hyphens=False)


def _summary(
  results: Mapping[Claim, Mapping[str, Finding]],
) -> Iterator[str]:
  workloads = list(next(iter(results.values())))
  yield f'| claim | {" | ".join(workloads)} |'
  yield '|---|' + '---|' * len(workloads)
  for number, (claim, by_workload) in enumerate(results.items(), start=1):
    verdicts = ' | '.join(_verdict(by_workload[w]) for w in workloads)
    yield f'| {number}. {claim.sentence} | {verdicts} |'


def _verdict(finding: Finding) -> str:
  num_for, num_against, _ = _counts(finding)
  if not num_for + num_against:
    return f'{finding.verdict}: no seed could be asked'
  return f'{finding.verdict} ({num_for} : {num_against})'


def _counts(finding: Finding) -> list[int]:
  """Seeds for, against and neither."""
  votes = np.asarray(finding.votes)
  return [int((votes == vote).sum()) for vote in (1, -1, 0)]


def _table(by_workload: Mapping[str, Finding]) -> Iterator[str]:
  """A row per measure, then the votes and the verdict."""
  findings_of = list(by_workload.values())
  cells = [
    {m.name: describe_values(m.values) for m in finding.measures}
    for finding in findings_of
  ]
  names = dict.fromkeys(name for column in cells for name in column)
  rows = [[name, *(c.get(name, 'none') for c in cells)] for name in names]
  votes = [' : '.join(map(str, _counts(f))) for f in findings_of]
  rows.append(['seeds for : against : neither', *votes])
  rows.append(['verdict', *(f'**{f.verdict}**' for f in findings_of)])
  yield f'| | {" | ".join(by_workload)} |'
  yield '|---|' + '---|' * len(by_workload)
  for row in rows:
    yield f'| {" | ".join(row)} |'


def describe_values(values: Sequence[float]) -> str:
  """'median (lower to upper quartile)', or 'none'."""
  if not values:
    return 'none'
  # Between a number and infinity there is nothing to interpolate.
  numbers, cuts = np.asarray(values, float), (0.25, 0.5, 0.75)
  quartiles = (
    np.quantile(numbers, cuts)
    if np.isfinite(numbers).all()
    else np.quantile(numbers, cuts, method='inverted_cdf')
  )
  low, middle, high = map(_number, quartiles)
  return middle if low == high else f'{middle} ({low} to {high})'


def _number(value: float) -> str:
  return 'never' if math.isinf(value) else f'{value:.3g}'

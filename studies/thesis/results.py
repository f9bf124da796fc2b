"""RESULTS.md: all claims asked of all workloads, from logs to the text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, logger
from ..paths import META_DATA, read_object
from ..run_files import RunTable, read_run
from .claims import CLAIMS, FAILED, GOOD, Claim, Finding
from .logs import Job, RunLog

# What stands for the thesis' workloads, and digits.
WORKLOADS = ('digits', 'molecules', 'translation')
# As they are trained: with all of one seed's runs there, all claims are.
RUNS = tuple(dict.fromkeys(run for claim in CLAIMS for run in claim.runs))
_MADE_BY = """\
Measured on the small workloads of `mini_algoperf`, which stand in for the
benchmark's: nothing here is a result on AlgoPerf. The numbers are medians over
seeds with the lower and the upper quartile; failures are among them. This file
is written by a command:"""
_BEHIND = """\
Behind it are {num_runs} runs, seeds {seeds[0]} to {seeds[1]}, whose logs come
with the project. With `--noshipped` the same command trains them all anew, two
at a time, a core each: about {half:.1f} hours on two cores ({hours:.1f} hours
of training and evaluation in all). Trained with {versions} on {devices}."""
_MEANING = f"""\
The way of a run leads from the untrained model to the target. A cycle that ends
within the first {100 * FAILED:g} % of it has failed, one that has gone
{100 * GOOD:g} % of it is good. A seed without the cycle that a question is
about counts neither way. A reset is recovered from when 95 % of the way to the
last evaluation before it is regained; this is counted in evaluations; "never"
is not before the next reset, and counts as one evaluation more than there were.
Where a seed is asked about several resets, its vote is that of their mean. A
verdict is that of a two-sided sign test at 5 % over the seeds for and against a
claim, which stand behind it; without enough of them it is undecided."""

Results = Mapping[Claim, Mapping[str, Finding]]  # by claim and workload


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

  Raises:
    ValueError: if a log is damaged; the message names it.
  """
  studies: dict[str, dict[str, dict[int, RunTable]]] = {
    workload: {name: {} for name in RUNS} for workload in WORKLOADS
  }
  for job, log_dir in logs:
    studies[job.workload][job.run][job.seed] = read_run(log_dir)
  results = {
    claim: {name: claim.ask(study) for name, study in studies.items()}
    for claim in CLAIMS
  }
  return results_text(origin_of(command, seeds, logs), results)


def origin_of(
  command: str, seeds: Sequence[int], logs: Sequence[RunLog]
) -> Origin:
  """What stands behind the numbers; arguments as for `measure`."""
  metas = [read_object(log.log_dir / META_DATA) for log in logs]
  rows = [files.read_rows(x.log_dir / logger.EVAL_MEASUREMENTS) for x in logs]
  seconds = sum(float(table[-1]['total_duration']) for table in rows)
  versions = {
    f'{name} {meta[f"{name}_version"]}'
    for meta in metas
    for name in ('jax', 'flax', 'optax')
  }
  return Origin(
    command,
    len(logs),
    tuple(seeds),
    seconds / 3600,
    tuple(sorted(versions)),
    tuple(sorted({meta['device_kind'] for meta in metas})),
  )


def results_text(origin: Origin, results: Results) -> str:
  """The whole file."""
  behind = _BEHIND.format(
    num_runs=origin.num_runs,
    seeds=(origin.seeds[0], origin.seeds[-1]),
    half=origin.hours / 2,
    hours=origin.hours,
    versions=', '.join(origin.versions),
    devices=', '.join(origin.devices),
  )
  lines = ['# Does the thesis hold?', '', *_wrapped(_MADE_BY), '']
  lines += [f'    {origin.command}', '', *_wrapped(behind), '']
  lines += [*_wrapped(_MEANING), '', *_summary(results)]
  for number, (claim, by_workload) in enumerate(results.items(), start=1):
    lines += ['', f'## {number}. {claim.sentence}', '']
    lines += [*_wrapped(claim.question), '']
    lines += [f'Runs: {", ".join(f"`{run}`" for run in claim.runs)}.', '']
    lines += _table(by_workload)
  return '\n'.join(lines) + '\n'


def _wrapped(text: str) -> list[str]:
  return textwrap.wrap(text, 80, break_on_hyphens=False)


def _markdown(head: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
  first, *rest = rows
  yield f'| {head}{" | ".join(first)} |'
  yield '|---|' + '---|' * len(first)
  for row in rest:
    yield f'| {" | ".join(row)} |'


def _summary(results: Results) -> Iterator[str]:
  rows = [list(next(iter(results.values())))]
  for number, (claim, by_workload) in enumerate(results.items(), start=1):
    rows.append([f'{number}. {claim.sentence}'])
    for finding in by_workload.values():
      num_for, num_against, _ = finding.counts
      how = f' ({num_for} : {num_against})'
      if not num_for + num_against:
        how = ': no seed could be asked'
      rows[-1].append(finding.verdict + how)
  return _markdown('claim | ', rows)


def _table(by_workload: Mapping[str, Finding]) -> Iterator[str]:
  """A row per measure, then the votes and the verdict."""
  findings = list(by_workload.values())
  cells = [
    {m.name: describe_values(m.values) for m in finding.measures}
    for finding in findings
  ]
  names = dict.fromkeys(name for column in cells for name in column)
  rows = [[name, *(c.get(name, 'none') for c in cells)] for name in names]
  votes = [' : '.join(map(str, finding.counts)) for finding in findings]
  rows.append(['seeds for : against : neither', *votes])
  rows.append(['verdict', *(f'**{f.verdict}**' for f in findings)])
  return _markdown('| ', [list(by_workload), *rows])


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

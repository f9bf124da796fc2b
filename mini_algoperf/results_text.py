"""RESULTS.md: what was measured of the thesis' claims, as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from . import findings
from .claims import Claim
from .findings import Finding, Measure


class Origin(NamedTuple):
  """What stands behind the numbers."""

  command: str
  num_runs: int
  seeds: tuple[int, ...]
  hours: float  # sum of the runs' durations
  versions: tuple[str, ...]  # of jax and the processor, as recorded


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
    'among them. This file is written by a command, from logs that are in '
    '`experiments/logs`:'
  )
  yield from ('', f'    {origin.command}', '')
  seeds = f'{origin.seeds[0]} to {origin.seeds[-1]}'
  yield from _wrapped(
    f'Behind it are {origin.num_runs} runs, seeds {seeds}, which took '
    f'{origin.hours:.1f} hours of one core each time: about '
    f'{origin.hours / 2:.1f} hours on two cores, two runs at a time. '
    f'Trained with {", ".join(origin.versions)}.'
  )
  yield ''
  yield from _wrapped(
    'The way of a run leads from the untrained model to the target. A cycle '
    f'that ends within the first {findings.FAILED:.0%} of it has failed, one '
    f'that has gone {findings.GOOD:.0%} of it is good. A seed without the '
    'cycle that a question is about counts neither way. A reset is recovered '
    'from when 95 % of the way to the last evaluation before it is regained; '
    'this is counted in evaluations; "never" is not before the next reset. '
    "Where a run has several such resets, a seed's value is their mean. A "
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
  return f'{finding.verdict} ({num_for} : {num_against})'


def _counts(finding: Finding) -> list[int]:
  """Seeds for, against and neither."""
  votes = np.asarray(finding.votes)
  return [int((votes == vote).sum()) for vote in (1, -1, 0)]


def _table(by_workload: Mapping[str, Finding]) -> Iterator[str]:
  yield '| workload | median (quartiles) | for | against | neither | verdict |'
  yield '|---|---|---|---|---|---|'
  for workload, finding in by_workload.items():
    counts = _counts(finding)
    measured = '<br>'.join(map(describe_measure, finding.measures))
    row = [workload, measured, *map(str, counts), f'**{finding.verdict}**']
    yield f'| {" | ".join(row)} |'


def describe_measure(measure: Measure) -> str:
  """'name: median (lower to upper quartile)'."""
  if not measure.values:
    return f'{measure.name}: none'
  # Between a number and infinity there is nothing to interpolate.
  method = 'linear' if np.isfinite(measure.values).all() else 'inverted_cdf'
  low, middle, high = np.quantile(
    measure.values, (0.25, 0.5, 0.75), method=method
  )
  low, middle, high = map(_number, (low, middle, high))
  if low == high:
    return f'{measure.name}: {middle}'
  return f'{measure.name}: {middle} ({low} to {high})'


def _number(value: float) -> str:
  return 'never' if math.isinf(value) else f'{value:.3g}'

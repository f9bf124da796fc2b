"""The result of trials one after the other, each until it is left.

The README of `studies.real_runs` defines groups, cases, budgets and figures.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..real_runs.reading import RecordedRun

# (board, ruleset) with several trials per submission; 'logs': a user's folder.
_SOURCES = {('v05', 'external'), ('logs', 'external')}
_LEAST_EVALUATIONS = 3
_LEAST_TRIALS = 4


class Judged(NamedTuple):
  """A run, and the evaluation at which a policy leaves it."""

  run: RecordedRun
  left: int  # its index; the number of evaluations if never left

  @property
  def reaches(self) -> bool:
    """Whether the target is reached before the run is left."""
    return self.run.reached is not None and self.run.reached <= self.left

  @property
  def is_false_alarm(self) -> bool:
    """Whether a run is left that goes on to reach its target."""
    return self.run.reached is not None and self.left < self.run.reached

  @property
  def seconds(self) -> float:
    """The seconds until the target, or until the run is left or ends."""
    last = min(self.left, self.run.step.size - 1)
    return float(self.run.seconds[self.run.reached if self.reaches else last])


class Group(NamedTuple):
  """Trials of a submission, in order."""

  max_runtime: float  # seconds
  seconds: tuple[float, ...]  # what each costs
  reaches: tuple[bool, ...]  # whether each reaches its target for that


class Case(NamedTuple):
  """The result of a group's trials in one order."""

  reached: bool
  time: float  # time until the target, as a share of the budget; 1 if never


def comparable(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
  """The runs on which policies are judged.

  Raises:
    ValueError: unless at least four of them are trials of the same submission,
      study and workload.
  """
  found = [
    run
    for run in runs
    if (run.board, run.ruleset) in _SOURCES
    and run.step.size >= _LEAST_EVALUATIONS
  ]
  if not groups([Judged(run, 0) for run in found]):
    raise ValueError(
      'there is nothing to replay: there must be at least four trials of one '
      'submission, study and workload, with three evaluations each, on board '
      'v05 with ruleset external.'
    )
  return found


def groups(judged: Sequence[Judged]) -> list[Group]:
  """The costs and results of trials of one submission, study and workload.

  Args:
    judged: see `trials_of_groups`.
  """
  return [as_group(trials) for trials in trials_of_groups(judged)]


def trials_of_groups(judged: Sequence[Judged]) -> list[list[Judged]]:
  """Trials of the same submission, study and workload, in their order.

  Args:
    judged: `comparable` runs; those without finite seconds are left out.
  """
  found: dict[tuple[str, ...], list[Judged]] = collections.defaultdict(list)
  for one in judged:
    run = one.run
    if np.isfinite(run.seconds).all():
      key = (run.board, run.submission, run.study, run.workload.name)
      found[key].append(one)
  return [
    sorted(trials, key=lambda one: (len(one.run.trial), one.run.trial))
    for _, trials in sorted(found.items())
    if len(trials) >= _LEAST_TRIALS
  ]


def as_group(trials: Sequence[Judged]) -> Group:
  """A group with what each of these trials costs and reaches."""
  return Group(
    trials[0].run.workload.max_runtime,
    tuple(one.seconds for one in trials),
    tuple(one.reaches for one in trials),
  )


def cases(group: Group, factor: float) -> list[Case]:
  """A case for each rotation of the trials' order.

  Args:
    group: one of `groups`.
    factor: the budget as a multiple of the maximum runtime.
  """
  return within(seconds_to_target(group), factor * group.max_runtime)


def seconds_to_target(group: Group) -> list[float]:
  """Seconds spent until the target; infinity if it is never reached.

  Returns:
    One number for each rotation of the trials' order.
  """
  trials = list(zip(group.seconds, group.reaches))
  return [
    _spent([*trials[first:], *trials[:first]]) for first in range(len(trials))
  ]


def _spent(trials: Sequence[tuple[float, bool]]) -> float:
  spent = 0.0
  for seconds, reaches in trials:
    spent += seconds
    if reaches:
      return spent
  return math.inf


def within(seconds: Sequence[float], budget: float) -> list[Case]:
  """The cases under a budget in seconds, which policies do not know."""
  return [
    Case(True, spent / budget) if spent <= budget else Case(False, 1.0)
    for spent in seconds
  ]

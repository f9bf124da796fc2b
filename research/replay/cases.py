"""The result of trials one after the other, each until a rule abandons it.

README.md defines groups, cases, budgets and figures.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .recorded import RecordedRun
from .rules import EVERYTHING, End, Rule, Sight, abandoned_at

# (board, ruleset) with several trials per submission; 'logs': a user's folder.
_SOURCES = {('v05', 'external'), ('logs', 'external')}
_LEAST_EVALUATIONS = 3
_LEAST_TRIALS = 4


class Judged(NamedTuple):
  """A run, and the evaluation at which a rule abandons it."""

  run: RecordedRun
  end: End

  @property
  def reaches(self) -> bool:
    """Whether the target is reached before the run is abandoned."""
    return self.run.reached is not None and self.run.reached <= self.end.at

  @property
  def is_false_alarm(self) -> bool:
    """Whether a run is abandoned that would reach its target."""
    return self.run.reached is not None and self.end.at < self.run.reached

  @property
  def seconds(self) -> float:
    """The seconds until the target, or until the run is abandoned or ends."""
    last = min(self.end.at, self.run.step.size - 1)
    return float(self.run.seconds[self.run.reached if self.reaches else last])


class Case(NamedTuple):
  """The result of a group's trials in one order."""

  reached: bool
  time: float  # time until the target, as a share of the budget; 1 if never


class Group(NamedTuple):
  """Trials of a submission, in order, and what each rotation of it takes."""

  trials: Sequence[Judged]
  seconds: Sequence[float]  # until the target; infinity if it isn't reached

  def cases(self, factor: float) -> list[Case]:
    """The cases under a budget of `factor` maximum runtimes."""
    budget = factor * self.trials[0].run.workload.max_runtime
    return [
      Case(True, spent / budget) if spent <= budget else Case(False, 1.0)
      for spent in self.seconds
    ]


class Replayed(NamedTuple):
  """A rule, where it abandons each of the runs, and the groups of these."""

  rule: Rule
  judged: Sequence[Judged]
  groups: Sequence[Group]


def replay(
  runs: Sequence[RecordedRun], rule: Rule, sight: Sight = EVERYTHING
) -> Replayed:
  """Finds where a rule abandons every run."""
  judged = [Judged(run, abandoned_at(rule, run, sight)) for run in runs]
  groups = [
    Group(trials, seconds_in_a_row(trials))
    for trials in trials_of_groups(judged)
  ]
  return Replayed(rule, judged, groups)


def comparable(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
  """The runs on which rules are judged; ValueError if they make no group."""
  found = [
    run
    for run in runs
    if (run.board, run.ruleset) in _SOURCES
    and run.step.size >= _LEAST_EVALUATIONS
  ]
  if not trials_of_groups([Judged(run, End(0)) for run in found]):
    raise ValueError(
      'there is nothing to replay: there must be at least four trials of one '
      'submission, study and workload, with three evaluations each.'
    )
  return found


def trials_of_groups(judged: Sequence[Judged]) -> list[list[Judged]]:
  """Trials of the same submission, study and workload, in their order.

  Args:
    judged: `comparable` runs; those without finite seconds do not count.
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


def seconds_in_a_row(trials: Sequence[Judged]) -> list[float]:
  """Seconds spent until the target, trial after trial; infinity if never.

  Returns:
    One number for each rotation of the trials' order.
  """
  found = []
  for first in range(len(trials)):
    order = [*trials[first:], *trials[:first]]
    spent = list(itertools.accumulate(one.seconds for one in order))
    ends = [end for one, end in zip(order, spent) if one.reaches]
    found.append(ends[0] if ends else math.inf)
  return found

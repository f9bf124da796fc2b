"""The result of trials one after the other, or in a race, each until it is left.

The README of `studies.real_runs` defines groups, cases, budgets and figures.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ..real_runs.reading import RecordedRun
from .rules import Rule, TrialRace, best_shares, left_at

T = TypeVar('T')
# (board, ruleset) with several trials per submission; 'logs': a user's folder.
_SOURCES = {('v05', 'external'), ('logs', 'external')}
_LEAST_EVALUATIONS = 3
_LEAST_TRIALS = 4


class Judged(NamedTuple):
  """A run, and the evaluation at which a rule leaves it."""

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
  """A rule, where it leaves each of the runs, and the groups of these."""

  rule: Rule
  judged: Sequence[Judged]
  groups: Sequence[Group]


def replay(runs: Sequence[RecordedRun], rule: Rule) -> Replayed:
  """Finds where a rule leaves every run."""
  judged = [Judged(run, left_at(rule, run)) for run in runs]
  seconds = seconds_in_a_row
  if rule.race is not None:
    seconds = functools.partial(seconds_in_race, rule.race)
  groups = [
    Group(trials, seconds(trials)) for trials in trials_of_groups(judged)
  ]
  return Replayed(rule, judged, groups)


def comparable(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
  """The runs on which rules are judged.

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
  if not trials_of_groups([Judged(run, 0) for run in found]):
    raise ValueError(
      'there is nothing to replay: there must be at least four trials of one '
      'submission, study and workload, with three evaluations each.'
    )
  return found


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


def _rotations(trials: Sequence[T]) -> list[list[T]]:
  return [[*trials[i:], *trials[:i]] for i in range(len(trials))]


def seconds_in_a_row(trials: Sequence[Judged]) -> list[float]:
  """Seconds spent until the target, trial after trial; infinity if never.

  Returns:
    One number for each rotation of the trials' order.
  """
  found = []
  for order in _rotations(trials):
    spent = list(itertools.accumulate(one.seconds for one in order))
    ends = [end for one, end in zip(order, spent) if one.reaches]
    found.append(ends[0] if ends else math.inf)
  return found


class Probed(NamedTuple):
  """A trial, and what its probe in a race gives."""

  trial: Judged
  seconds: float  # that the probe takes, up to the target if it gets there
  reaches: bool  # whether the probe gets to the target
  is_out: bool  # whether the trial is left, or ends, within its probe
  best: float  # share of the way that it comes


def probe(trial: Judged, share: float) -> Probed:
  """A trial's beginning, up to the evaluation nearest to a share of its run.

  A probe ends where no later evaluation is expected to be nearer, so that
  nothing of the future is used: at the first with f + spacing / 2 >= share, of
  which the spacing is the largest distance between two evaluations so far.
  """
  run, f = trial.run, trial.run.share
  end = min(trial.left, f.size - 1)
  spacing = np.maximum.accumulate(np.diff(f, prepend=0.0))
  near = np.flatnonzero((f + spacing / 2 >= share)[:end])
  last = int(near[0]) if near.size else end
  reaches = run.reached is not None and run.reached <= last
  at = run.reached if reaches else last
  best = float(best_shares(run)[last])
  return Probed(trial, float(run.seconds[at]), reaches, not near.size, best)


def seconds_in_race(race: TrialRace, trials: Sequence[Judged]) -> list[float]:
  """Seconds that a race spends until the target; infinity if never.

  Returns:
    One number for each rotation of the trials' order.
  """
  probed = [probe(trial, race.share) for trial in trials]
  return [_seconds_of_race(race, order) for order in _rotations(probed)]


def _seconds_of_race(race: TrialRace, order: Sequence[Probed]) -> float:
  spent = 0.0
  in_play, others = order[: race.probes], order[race.probes :]
  for one in in_play:
    spent += one.seconds
    if one.reaches:
      return spent
  ranked = sorted(in_play, key=lambda one: -one.best)
  goes_on = [one for one in ranked if not one.is_out]
  at_hand: Probed | None = in_play[-1]
  for one in (*goes_on, *others):
    spent += one.trial.seconds - (one.seconds if one is at_hand else 0.0)
    if one.trial.reaches:
      return spent
    at_hand = None
  return math.inf

"""Trials that are paused and compared, as in a race of the submission."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...control import history
from ...control.history import OVER, PAUSED, Standing
from ...control.policies.tournament import Tournament
from ...control.state import Evaluation, Target
from .cases import Judged


class Runner(NamedTuple):
  """A trial that can be in a race."""

  trial: Judged
  path: Sequence[Standing]  # after each of its evaluations


def runner(trial: Judged) -> Runner:
  """What a race may see of a trial, computed once for all of its cases."""
  run, workload = trial.run, trial.run.workload
  target = Target(workload.metric, workload.target, workload.rises)
  first, entry, path = float(run.metric[0]), Standing(), []
  columns = (run.step, run.loss, run.metric, run.seconds, run.share)
  rows = zip(*(column.tolist() for column in columns))
  for step, loss, metric, seconds, share in rows:
    evaluation = Evaluation(int(step), loss, metric, seconds)
    entry = history.observe(entry, evaluation, share, target, first)
    path.append(entry)
  return Runner(trial, path)


def seconds_to_target(
  race: Tournament, trials: Sequence[Judged]
) -> list[float]:
  """Seconds that a race spends until the target; infinity if never reached.

  Args:
    race: decides which trial goes on.
    trials: those of a group, each with where the switching rule leaves it.

  Returns:
    One number for each rotation of the trials' order.
  """
  runners = [runner(trial) for trial in trials]
  return [
    _spent(race, [*runners[first:], *runners[:first]])
    for first in range(len(runners))
  ]


def _spent(race: Tournament, runners: Sequence[Runner]) -> float:
  entries = [Standing()] * len(runners)
  had, spent = [-1] * len(runners), 0.0  # last evaluations, seconds
  while (turn := race.turn(entries)) is not None:
    i = turn.entry
    run, path = runners[i].trial.run, runners[i].path
    last, state = _stint(runners[i], had[i], turn.until)
    reaches = run.reached is not None and run.reached <= last
    last = run.reached if reaches else last
    # A trial that is paused and resumed pays its seconds only once.
    before = run.seconds[had[i]] if had[i] >= 0 else 0.0
    spent += float(run.seconds[last] - before)
    if reaches:
      return spent
    entry = entries[i]
    entry = path[last]._replace(stints=entry.stints, marks=entry.marks)
    entries[i], had[i] = history.end_stint(entry, state), last
  return math.inf


def _stint(one: Runner, had: int, until: float) -> tuple[int, int]:
  """The last evaluation of a stint, and the state that it leaves."""
  end = min(one.trial.left, len(one.path) - 1)
  for index in range(had + 1, end):
    if history.is_nearest(one.path[index], until):
      return index, PAUSED
  return end, OVER

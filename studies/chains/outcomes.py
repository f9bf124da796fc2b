"""The outcome of each setting on each workload, in each study.

A run that reaches its target before it is left succeeds, after the seconds up
to that point; any other run costs the seconds until it is left or ends.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...settings.named import Setting
from ..real_runs.reading import RecordedRun
from ..replay.cases import Judged
from ..replay.policies import POLICIES, Replayed, left_at, read_policy
from .runs import Runs, runs_of
from .settings import ChainSetting, TrialPoint

LEAST_EVALUATIONS = 3
# The rule used for the table in README.md: a floor under the share of the way,
# on a log scale if the metric falls.
FLOOR = (
  '{"name": "floor", "least": '
  '[0.1, 0.55, 0.65, 0.72, 0.78, 0.83, 0.88, 0.93, 0.97]}'
)
DEFAULT_POLICY: Setting = read_policy(FLOOR)


class Outcomes(NamedTuple):
  """Seconds, shape=(settings, workloads, studies) each.

  A missing run reaches nothing and costs nothing.
  """

  reached: np.ndarray  # until the target; infinite if never
  cost: np.ndarray  # of a run that fails; infinite if it does not


class Links(NamedTuple):
  """The outcomes of what a chain can begin with, and of what can follow."""

  first: Outcomes  # of the settings, and of races if there are any
  later: Outcomes  # of the settings


class Recorded(NamedTuple):
  """The runs of settings, and the axes of their outcomes."""

  settings: Sequence[ChainSetting]
  workloads: Sequence[str]
  studies: Sequence[str]
  runs: Sequence[Runs]  # one per setting


def recorded(
  settings: Sequence[ChainSetting],
  points: Mapping[TrialPoint, Runs],
  workloads: Sequence[str],
  least: int = LEAST_EVALUATIONS,
) -> Recorded:
  """Finds the runs of settings.

  Args:
    settings: the cycles that a chain can have.
    points: as returned by `runs.by_point`.
    workloads: names; others do not count.
    least: least number of evaluations of a run; one with fewer costs nothing
      and reaches nothing.

  Raises:
    ValueError: if a point has no runs.
  """
  runs = [runs_of(setting, points, least) for setting in settings]
  studies = sorted({study for own in runs for _, study in own})
  return Recorded(list(settings), list(workloads), studies, runs)


def outcomes(found: Recorded, policy: Setting) -> Outcomes:
  """The outcomes of runs under a policy.

  Args:
    found: as returned by `recorded`.
    policy: one of `replay.policies.POLICIES`.
  """
  shape = (len(found.settings), len(found.workloads), len(found.studies))
  reached, cost = np.full(shape, np.inf), np.zeros(shape)
  judge = functools.partial(_judge, POLICIES.make(policy))
  for i, runs in enumerate(found.runs):
    for j, workload in enumerate(found.workloads):
      for k, study in enumerate(found.studies):
        run = runs.get((workload, study))
        if run is not None:
          reached[i, j, k], cost[i, j, k] = judge(run)
  return Outcomes(reached, cost)


def _judge(policy: Replayed, run: RecordedRun) -> tuple[float, float]:
  judged = Judged(run, left_at(policy, run))
  if judged.reaches:
    return judged.seconds, np.inf
  return np.inf, judged.seconds


def followed(before: Outcomes, after: Outcomes) -> Outcomes:
  """The outcomes of each chain of one set followed by each of another.

    reached = min(reached₁, cost₁ + reached₂)      cost = cost₁ + cost₂

  A chain that reaches its target has an infinite cost: nothing follows it.

  Args:
    before: outcomes of m chains.
    after: outcomes of n chains.

  Returns:
    Outcomes of m n chains; chain i followed by chain j has index i n + j.
  """
  first = Outcomes(*(array[:, None] for array in before))
  together = (
    np.minimum(first.reached, first.cost + after.reached),
    first.cost + after.cost,
  )
  shape = (-1, *before.cost.shape[1:])
  return Outcomes(*(array.reshape(shape) for array in together))


def chain_outcomes(links: Links, chain: Sequence[int]) -> Outcomes:
  """The outcomes of one chain, shape=(1, workloads, studies) each.

  Args:
    links: outcomes of its links.
    chain: the index of its first link, and those of the later ones.
  """
  parts = [(links.first, chain[0]), *((links.later, i) for i in chain[1:])]
  found = [Outcomes(*(a[[i]] for a in single)) for single, i in parts]
  return functools.reduce(followed, found)

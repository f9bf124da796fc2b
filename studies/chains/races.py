"""Races of settings as the first link of a chain.

Each setting has a probe, which ends at the first evaluation at or after a given
share of its run. Then the one with the best metric so far goes on from where it
was paused, until it is left; then the next best. Each second is paid once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..real_runs.reading import RecordedRun
from .outcomes import Links, Outcomes, Recorded
from .settings import ChainSetting

_ENTRIES = 2  # settings in a race


class Probes(NamedTuple):
  """Shape=(settings, workloads, studies) each."""

  cost: np.ndarray  # seconds to the probe's end; 0 if there is no run
  best: np.ndarray  # best metric so far, larger is better; -inf if none


def probes(found: Recorded, share: float) -> Probes:
  """The cost and best metric of each run's probe.

  Args:
    found: as returned by `recorded`.
    share: share of the run at which a probe ends; see `RecordedRun.share`.
  """
  shape = (len(found.settings), len(found.workloads), len(found.studies))
  cost, best = np.zeros(shape), np.full(shape, -np.inf)
  for i, runs in enumerate(found.runs):
    for j, workload in enumerate(found.workloads):
      for k, study in enumerate(found.studies):
        run = runs.get((workload, study))
        if run is not None:
          cost[i, j, k], best[i, j, k] = _probe(run, share)
  return Probes(cost, best)


def _probe(run: RecordedRun, share: float) -> tuple[float, float]:
  beyond = run.share >= share
  end = int(beyond.argmax()) if beyond.any() else run.step.size - 1
  metric = run.metric[: end + 1] * (1.0 if run.workload.rises else -1.0)
  known = metric[np.isfinite(metric)]
  return float(run.seconds[end]), float(known.max(initial=-np.inf))


def pairs(num_settings: int) -> np.ndarray:
  """The indices of the settings in all races of two, shape=(races, 2)."""
  found = itertools.combinations(range(num_settings), _ENTRIES)
  return np.array(list(found), int).reshape(-1, _ENTRIES)


def with_races(single: Outcomes, probed: Probes) -> Links:
  """Links for chains that may begin with a setting or a race of two."""
  raced = race(single, probed, pairs(len(single.cost)))
  first = (np.concatenate(both) for both in zip(single, raced))
  return Links(Outcomes(*first), single)


def link_names(settings: Sequence[ChainSetting]) -> list[str]:
  """Names of the first links that `with_races` returns."""
  raced = (f'{settings[i]}~{settings[j]}' for i, j in pairs(len(settings)))
  return [*map(str, settings), *raced]


def race(single: Outcomes, probed: Probes, entered: np.ndarray) -> Outcomes:
  """The outcomes of races, each as one link of a chain.

    probes in the order given:  Σ_{j<k} probe_j + reached_k,  if reached there
    then, the best first:       Σ_j probe_j + Σ_{j<k} rest_j
                                + reached_k - probe_k

  The earliest of these counts. A setting that is left during its probe costs
  the seconds until then and does not go on.

  Args:
    single: outcomes of settings.
    probed: probes of the same settings.
    entered: indices of the settings in each race, shape=(races, size).

  Returns:
    Outcomes, shape=(races, workloads, studies) each.
  """
  reached, cost = single.reached[entered], single.cost[entered]
  ends = np.minimum(probed.cost[entered], np.minimum(reached, cost))
  before = np.cumsum(ends, axis=1) - ends
  in_probe = np.where(reached <= ends, before + reached, np.inf).min(axis=1)
  order = np.argsort(-probed.best[entered], axis=1, kind='stable')
  spent = ends.sum(axis=1)
  rest = [
    np.take_along_axis(array - ends, order, axis=1) for array in (reached, cost)
  ]
  first = np.full(spent.shape, np.inf)
  for own_reached, own_cost in zip(*(np.moveaxis(a, 1, 0) for a in rest)):
    first = np.minimum(first, spent + own_reached)
    spent = spent + own_cost
  return Outcomes(np.minimum(first, in_probe), spent)

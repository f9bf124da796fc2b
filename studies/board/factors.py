"""Chooses each submission's rate factor from runs under tuned@2, tuned@4, ...

The best factor is the one with which the most of the budget is left when the
target is reached, on average over workloads and seeds; a run that does not
reach it has nothing left. Ties go to the factor that comes nearest to the
targets.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, logger
from ..runs.log import read_log
from ..scores.times import read_target, time_to_target
from . import entries
from .conditions import BUDGET

_PREFIX = 'tuned'


class Merit(NamedTuple):
  """How good a run was; larger is better."""

  left: float  # share of the budget left; 0 if the target was not reached
  nearness: float  # 1 if it was reached, else the best metric over the target


def read_merits(
  root: pathlib.Path,
) -> Mapping[str, Mapping[float, list[Merit]]]:
  """The merits of all runs, by submission and factor.

  Raises:
    ValueError: if there is none.
  """
  found: dict[str, dict[float, list[Merit]]] = defaultdict(
    lambda: defaultdict(list)
  )
  for folder in sorted(root.glob(f'{_PREFIX}*')):
    factor = float(folder.name.partition('@')[2] or 1.0)
    for meta in sorted(folder.glob('*/study_*/*_jax/trial_1/meta_data_0.json')):
      name = meta.relative_to(folder).parts[0]
      found[name][factor].append(_merit(meta))
  if not found:
    raise ValueError(
      f'{root} has no runs under {_PREFIX}@FACTOR: train them first.'
    )
  return found


def _merit(meta: pathlib.Path) -> Merit:
  metric, target, rises = read_target(meta)
  budget = BUDGET * files.read_json(meta)['workload.max_allowed_runtime_sec']
  path = meta.with_name(logger.EVAL_MEASUREMENTS)
  if not path.exists():
    return Merit(0.0, 0.0)
  log = read_log(path)
  values = log.numbers(f'validation/{metric}')
  seconds = time_to_target(
    log.numbers('accumulated_submission_time'), values, target, rises
  )
  if math.isfinite(seconds):
    return Merit(1.0 - seconds / budget, 1.0)
  if not np.isfinite(values).any():
    return Merit(0.0, 0.0)
  best = np.nanmax(values) if rises else np.nanmin(values)
  return Merit(0.0, float(best / target if rises else target / best))


def choose(
  merits: Mapping[str, Mapping[float, list[Merit]]],
) -> dict[str, float]:
  """The best factor by submission, of those with the most runs."""
  chosen = {}
  for name, own in sorted(merits.items()):
    most = max(len(runs) for runs in own.values())
    usable = [factor for factor, runs in own.items() if len(runs) == most]
    chosen[name] = max(
      usable, key=lambda factor: tuple(np.mean(own[factor], axis=0))
    )
  return chosen


def write(root: pathlib.Path) -> dict[str, float]:
  """Chooses factors from a study's runs and writes factors.json.

  Args:
    root: folder of the study.

  Returns:
    The chosen factors by submission.
  """
  merits = read_merits(root)
  chosen = choose(merits)
  table = {
    name: {
      f'{factor:g}': {
        'budget_left': round(float(np.mean([m.left for m in own])), 4),
        'nearness': round(float(np.mean([m.nearness for m in own])), 4),
        'runs': len(own),
      }
      for factor, own in sorted(by_factor.items())
    }
    for name, by_factor in sorted(merits.items())
  }
  text = json.dumps({'factors': chosen, 'chosen_from': table}, indent=2) + '\n'
  files.write_whole(entries.FACTORS_FILE, text)
  return chosen

"""The board's runs: read from a study's folder, or from archives of it.

An archive is <condition>.zip with runs.csv, a row per run, and evaluations.csv,
a row per evaluation: all that a scoreboard needs, in little space.
"""

from __future__ import annotations

import csv
import io
import math
import pathlib
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import logger
from ...views.paths import (
  META_DATA,
  check_file,
  folder,
  read_object,
  write_archive,
)
from ...views.run_files import MetricTarget, read_log, read_target
from .conditions import BUDGET

FAILURE = 'failure.txt'  # in the folder of a run that broke
_RUNS, _EVALUATIONS = 'runs.csv', 'evaluations.csv'
_KEY = ('submission', 'workload', 'seed')
_RUN_COLUMNS = (*_KEY, 'metric', 'target', 'rises', 'budget_sec', 'failed')
_NUMBERS = ('step', 'seconds', 'value')
_EVALUATION_COLUMNS = (*_KEY, *_NUMBERS)


class BoardRun(NamedTuple):
  """A run and its evaluations; seconds are those of the simulated clock."""

  condition: str
  submission: str
  workload: str
  seed: int
  target: MetricTarget
  budget_sec: float
  failed: bool
  steps: np.ndarray  # shape=(evaluations,)
  seconds: np.ndarray  # shape=(evaluations,), of submission time
  values: np.ndarray  # shape=(evaluations,), of the target metric

  @property
  def share_to_target(self) -> float:
    """Share of the budget until the target is reached; infinite if never."""
    return self.target.seconds(self.seconds, self.values) / self.budget_sec

  @property
  def is_reached(self) -> bool:
    """Whether the run has reached its target."""
    return math.isfinite(self.share_to_target)


def read_all(roots: Iterable[pathlib.Path]) -> list[BoardRun]:
  """The runs of several folders; of a run in more than one, the last counts."""
  found = [run for root in roots for run in read_runs(root)]
  return list({run[:4]: run for run in found}.values())


def read_runs(root: pathlib.Path) -> list[BoardRun]:
  """All runs of a study's folder, or of archives; ValueError without any."""
  paths = sorted(folder(root).glob('*.zip'))
  found = [run for path in paths for run in _unpack(path)]
  for meta in sorted(root.glob(f'[!.]*/*/study_*/*_jax/trial_1/{META_DATA}')):
    condition, submission, study, workload = meta.relative_to(root).parts[:4]
    target = read_target(meta.parent)
    seconds = read_object(meta)['workload.max_allowed_runtime_sec']
    log = read_log(meta.with_name(logger.EVAL_MEASUREMENTS))
    has_failed = meta.with_name(FAILURE).exists()
    column = f'validation/{target.metric}'
    if not has_failed and (not log.rows or column not in log.rows[0]):
      raise ValueError(f'{log.path} has no evaluation with {column}.')
    found.append(
      BoardRun(
        condition,
        submission,
        workload.removesuffix('_jax'),
        int(study.removeprefix('study_')),
        target,
        BUDGET * seconds,
        has_failed,
        log.numbers('global_step'),
        log.numbers('accumulated_submission_time'),
        log.numbers(column),
      )
    )
  if not found:
    raise ValueError(f'{root} has neither runs of a study nor archives.')
  return found


def pack(runs: Iterable[BoardRun], out: pathlib.Path) -> list[pathlib.Path]:
  """Writes <condition>.zip for all runs; returns the files."""
  tables: dict[str, tuple[list[tuple[object, ...]], ...]] = {}
  for run in sorted(runs, key=lambda run: run[:4]):
    about, evaluations = tables.setdefault(
      run.condition, ([_RUN_COLUMNS], [_EVALUATION_COLUMNS])
    )
    key, (metric, value, rises) = run[1:4], run.target
    what = (metric, _exactly(value), int(rises))
    about.append((*key, *what, _exactly(run.budget_sec), int(run.failed)))
    for numbers in zip(run.steps, run.seconds, run.values):
      evaluations.append((*key, *map(_exactly, numbers)))
  paths = []
  for condition, both in tables.items():
    contents = {}
    for name, rows in zip((_RUNS, _EVALUATIONS), both):
      text = io.StringIO()
      csv.writer(text, lineterminator='\n').writerows(rows)
      contents[name] = text.getvalue().encode('utf-8')
    paths.append(write_archive(out / f'{condition}.zip', contents))
  return paths


def _exactly(number: float) -> str:
  """All digits: a rounded value may be beyond a target that it has reached."""
  return repr(float(number)).removesuffix('.0')


def _unpack(path: pathlib.Path) -> list[BoardRun]:
  by_run: dict[tuple[str, ...], list[list[float]]] = {}
  try:
    with zipfile.ZipFile(check_file(path)) as packed:
      runs, evaluations = (
        list(csv.DictReader(io.StringIO(packed.read(name).decode('utf-8'))))
        for name in (_RUNS, _EVALUATIONS)
      )
    for row in evaluations:
      numbers = [float(row[c]) for c in _NUMBERS]
      by_run.setdefault(tuple(row[c] for c in _KEY), []).append(numbers)
    if lost := by_run.keys() - {tuple(run[c] for c in _KEY) for run in runs}:
      raise ValueError(f'{_RUNS} lacks {", ".join(min(lost))}')
    return [
      BoardRun(
        path.stem,
        run['submission'],
        run['workload'],
        int(run['seed']),
        MetricTarget(run['metric'], float(run['target']), run['rises'] == '1'),
        float(run['budget_sec']),
        bool(int(run['failed'])),
        *np.reshape(by_run.get(tuple(run[k] for k in _KEY), []), (-1, 3)).T,
      )
      for run in runs
    ]
  except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as e:
    raise ValueError(f'{path} is not the archive of a study: {e}') from e


def comparable(runs: Iterable[BoardRun]) -> list[BoardRun]:
  """The runs of the seeds that all submissions have, cell by cell.

  A cell is a workload under a condition. So an unfinished study, or a
  submission added later, is compared on the runs that all submissions have.
  """
  cells: dict[tuple[str, str], dict[str, dict[int, BoardRun]]] = {}
  submissions = set()
  for run in runs:
    submissions.add(run.submission)
    own = cells.setdefault((run.condition, run.workload), {})
    own.setdefault(run.submission, {})[run.seed] = run
  kept = []
  for own in cells.values():
    if set(own) != submissions:
      continue
    seeds = set.intersection(*(set(by_seed) for by_seed in own.values()))
    kept += [by_seed[s] for by_seed in own.values() for s in sorted(seeds)]
  return kept

"""The board's runs: read from a study's folder, or from archives of it.

An archive is <condition>.zip with runs.csv, a row per run, and evaluations.csv, a
row per evaluation: all that a scoreboard needs, in little space.
"""

from __future__ import annotations

import csv
import io
import math
import pathlib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...mini_algoperf import files, logger
from ..paths import META_DATA, check_file, folder, read_object
from ..run_files import MetricTarget, read_log, read_target
from .conditions import budget_of

FAILURE = 'failure.txt'  # in the folder of a run that broke
_RUNS, _EVALUATIONS = 'runs.csv', 'evaluations.csv'
_RUN_COLUMNS = (
  'submission', 'workload', 'seed', 'metric', 'target', 'rises', 'budget_sec',
  'failed',
)  # fmt: skip
_EVALUATION_COLUMNS = (
  'submission', 'workload', 'seed', 'step', 'seconds', 'value',
)  # fmt: skip
# The earliest date that a zip archive can hold: the same runs, the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


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
  """The runs of several folders.

  A run that is in more than one counts once, as the last of them has it.

  Raises:
    ValueError: see `read_runs`.
  """
  found = [run for root in roots for run in read_runs(root)]
  return list({run[:4]: run for run in found}.values())


def read_runs(root: pathlib.Path) -> list[BoardRun]:
  """All runs in a folder: that of a study, or one with archives.

  Raises:
    ValueError: if there is none, or a file is damaged.
  """
  paths = sorted(folder('', root).glob('*.zip'))
  found = [run for path in paths for run in _unpack(path)]
  for meta in sorted(root.glob(f'[!.]*/*/study_*/*_jax/trial_1/{META_DATA}')):
    condition, submission, study, workload = meta.relative_to(root).parts[:4]
    target = read_target(meta)
    seconds = read_object(meta)['workload.max_allowed_runtime_sec']
    log = read_log(meta.with_name(logger.EVAL_MEASUREMENTS))
    found.append(
      BoardRun(
        condition,
        submission,
        workload.removesuffix('_jax'),
        int(study.removeprefix('study_')),
        target,
        budget_of(condition) * seconds,
        meta.with_name(FAILURE).exists(),
        log.numbers('global_step'),
        log.numbers('accumulated_submission_time'),
        log.numbers(f'validation/{target.metric}'),
      )
    )
  if not found:
    raise ValueError(f'{root} has neither runs of a study nor archives.')
  return found


def pack(runs: Iterable[BoardRun], out: pathlib.Path) -> list[pathlib.Path]:
  """Writes <condition>.zip for all runs; returns the files.

  Args:
    runs: the runs; a condition's older archive is replaced.
    out: folder to write to; made if needed.
  """
  out.mkdir(parents=True, exist_ok=True)
  groups: dict[str, list[BoardRun]] = {}
  for run in runs:
    groups.setdefault(run.condition, []).append(run)
  paths = []
  for condition, group in sorted(groups.items()):
    group.sort(key=lambda r: (r.submission, r.workload, r.seed))
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w') as packed:
      for name, rows in _tables(group).items():
        entry = zipfile.ZipInfo(name, _DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        text = io.StringIO()
        csv.writer(text, lineterminator='\n').writerows(rows)
        packed.writestr(entry, text.getvalue(), compresslevel=9)
    paths.append(out / f'{condition}.zip')
    files.write_whole(paths[-1], content.getvalue())
  return paths


def _tables(runs: Sequence[BoardRun]) -> dict[str, list[tuple[object, ...]]]:
  about: list[tuple[object, ...]] = [_RUN_COLUMNS]
  evaluations: list[tuple[object, ...]] = [_EVALUATION_COLUMNS]
  for run in runs:
    key = (run.submission, run.workload, run.seed)
    metric, value, rises = run.target
    what = (metric, _exactly(value), int(rises))
    about.append((*key, *what, _exactly(run.budget_sec), int(run.failed)))
    evaluations += [
      (*key, *map(_exactly, numbers))
      for numbers in zip(run.steps, run.seconds, run.values)
    ]
  return {_RUNS: about, _EVALUATIONS: evaluations}


def _exactly(number: float) -> str:
  """All digits: a rounded value may be beyond a target that it has reached."""
  return repr(float(number)).removesuffix('.0')


def _unpack(path: pathlib.Path) -> list[BoardRun]:
  try:
    with zipfile.ZipFile(check_file(path)) as packed:
      about, evaluations = (
        list(csv.DictReader(io.StringIO(packed.read(name).decode('utf-8'))))
        for name in (_RUNS, _EVALUATIONS)
      )
    by_run: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for row in evaluations:
      by_run.setdefault(_key(row), []).append(row)
    return [_run(path.stem, row, by_run.get(_key(row), [])) for row in about]
  except (KeyError, ValueError, zipfile.BadZipFile) as e:
    raise ValueError(f'{path} is not the archive of a study: {e}') from e


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
  return row['submission'], row['workload'], row['seed']


def _run(
  condition: str, about: Mapping[str, str], rows: Sequence[Mapping[str, str]]
) -> BoardRun:
  return BoardRun(
    condition,
    about['submission'],
    about['workload'],
    int(about['seed']),
    MetricTarget(
      about['metric'], float(about['target']), about['rises'] == '1'
    ),
    float(about['budget_sec']),
    about['failed'] == '1',
    *(
      np.array([float(row[name]) for row in rows])
      for name in ('step', 'seconds', 'value')
    ),
  )


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

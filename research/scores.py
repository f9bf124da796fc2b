"""AlgoPerf's score, from times to the targets.

  t(s, w)      seconds until submission s reaches the target of workload w
  r(s, w)      t(s, w) / min over all submissions s' of t(s', w)
  rho(s, x)    share of the base workloads with r(s, w) <= x
  score(s)     integral of rho(s, x) over 1 <= x <= 4, / 3

The published scores take the trapezoidal rule over 100 points for the integral.

In 2024 base workloads had held-out variants. A base workload counts as not
reached where its variant isn't reached, or not within four times the fastest
submission's time; and a variant where its base workload isn't.

A study's time is that of its best trial, a submission's the median of its
studies'. A target that is met exactly is reached. The published scoring code
differs in two things: of a study's trials it takes the one with the fewest
evaluations to the target, not the fewest seconds, and it leaves out a trial
without evaluations, which here has not reached its target. On the self-tuning
runs of 2024 neither changes a score.

Source: Dahl et al. 2023, "Benchmarking Neural Network Training Algorithms",
section 4.4, and the scoring code of mlcommons/submissions_algorithms.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..views.pictures import line_styles, save_picture
from ..views.text_table import table_lines

R_MAX = 4.0  # the largest ratio that counts
_NUM_POINTS = 100
# Variant -> base workload; those that were drawn in 2024.
HELD_OUT = {
  'criteo1tb_embed_init': 'criteo1tb',
  'fastmri_tanh': 'fastmri',
  'imagenet_resnet_large_bn_init': 'imagenet_resnet',
  'librispeech_conformer_layernorm': 'librispeech_conformer',
  'ogbg_model_size': 'ogbg',
  'wmt_glu_tanh': 'wmt',
}
_BENCHMARK = (
  *('criteo1tb', 'fastmri', 'finewebedu_lm', 'imagenet_resnet'),
  *('imagenet_vit', 'librispeech_conformer', 'librispeech_deepspeech'),
  *('ogbg', 'wmt'),
)
# Okabe and Ito's palette, which is told apart without colour vision.
# Okabe and Ito's, black and two more: as many as a board has submissions.
# Seconds by submission and workload; infinite where the target isn't reached.
Times = Mapping[str, Mapping[str, float]]


class TrialTimes(NamedTuple):
  """One training run and when it had reached its target."""

  submission: str
  study: str
  workload: str
  seconds: float  # of submission time; infinite if never


class Entry(NamedTuple):
  """A submission among those that it is compared with."""

  submission: str
  score: float
  relative: np.ndarray  # shape=(workloads,); r(s, w)


def study_times(
  trials: Iterable[TrialTimes],
) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
  """Seconds of the best trial, by submission, workload and study."""
  best: dict[str, dict[str, dict[str, float]]] = {}
  for submission, study, workload, seconds in trials:
    studies = best.setdefault(submission, {}).setdefault(workload, {})
    studies[study] = min(seconds, studies.get(study, math.inf))
  return best


def median_times(trials: Iterable[TrialTimes]) -> dict[str, dict[str, float]]:
  """Seconds by submission and workload: the median over the studies."""
  return {
    submission: {w: float(np.median(list(s.values()))) for w, s in own.items()}
    for submission, own in study_times(trials).items()
  }


def base_workloads(times: Times) -> list[str]:
  """The workloads of which a score is made, in the order of their names.

  All that somebody has trained, but for variants of the benchmark's: theirs
  are the names of their base workloads and something behind it.
  """
  variants = tuple(f'{name}_' for name in _BENCHMARK)
  names = {workload for own in times.values() for workload in own}
  return sorted(name for name in names if not name.startswith(variants))


def base_times(
  times: Times, base: Sequence[str]
) -> dict[str, dict[str, float]]:
  """Times on the base workloads that count, after the rule of held-out ones.

  What a submission lacks, it has not reached. Without times on held-out
  workloads only those above four times the fastest one change: they become
  infinite.
  """

  def seconds(workload: str) -> np.ndarray:
    return np.array([own.get(workload, math.inf) for own in times.values()])

  def in_time(found: np.ndarray) -> np.ndarray:
    return np.where(found > R_MAX * found.min(), math.inf, found)

  counted = {}
  for workload in base:
    own = seconds(workload)
    counted[workload] = in_time(own)
    for variant, of in HELD_OUT.items():
      if of == workload and any(variant in t for t in times.values()):
        there = in_time(np.where(np.isinf(own), math.inf, seconds(variant)))
        counted[workload][np.isinf(there)] = math.inf
  return {
    name: {w: float(counted[w][i]) for w in base}
    for i, name in enumerate(times)
  }


def relative_times(seconds: np.ndarray) -> np.ndarray:
  """r(s, w); where nobody has reached a target, nobody has a ratio.

  Both have shape=(submissions, workloads), and are infinite if not reached.
  """
  fastest = seconds.min(axis=0)
  return seconds / np.where(np.isfinite(fastest), fastest, 1.0)


def profile(relative: np.ndarray, ratios: np.ndarray) -> np.ndarray:
  """rho, the share of workloads whose ratio is at most each of `ratios`.

  From shapes (workloads,) and (n,) to (n,).
  """
  return (relative[:, None] <= ratios).mean(axis=0)


def score(relative: np.ndarray) -> float:
  """The integral of the profile as the published scores have it, from 0 to 1.

  Example: of three workloads one is reached first of all, r = 1, one in twice
  the best time and one never: (1 + (4 - 2) / 3 + 0) / 3 = 0.556, and 0.557 over
  100 points.

  Args:
    relative: shape=(workloads,); r(s, w) of a submission.
  """
  rho = profile(relative, np.linspace(1.0, R_MAX, _NUM_POINTS))
  return float((rho[1:] + rho[:-1]).mean() / 2)


def entries(trials: Sequence[TrialTimes]) -> list[Entry]:
  """Submissions and scores, best first; ValueError if no workload counts."""
  times = median_times(trials)
  base = base_workloads(times)
  if not base:
    names = ', '.join(sorted({trial.workload for trial in trials}))
    raise ValueError(
      f'scores need a base workload; the logs have only {names}.'
    )
  own = base_times(times, base)
  seconds = np.array([list(t.values()) for t in own.values()], float)
  found = [
    Entry(name, score(relative), relative)
    for name, relative in zip(own, relative_times(seconds))
  ]
  return sorted(found, key=lambda entry: (-entry.score, entry.submission))


def score_lines(trials: Sequence[TrialTimes]) -> list[str]:
  """Scores for the terminal, and below them the times behind them."""
  found = entries(trials)
  rows = [('', 'submission', 'score', 'targets')]
  for place, entry in enumerate(found, start=1):
    reached = f'{np.isfinite(entry.relative).sum()} of {entry.relative.size}'
    rows.append((f'{place}', entry.submission, f'{entry.score:.4f}', reached))
  studies = study_times(trials)
  places = [row[0] for row in rows[1:]]
  times = [('workload', *places)]
  for workload in sorted({trial.workload for trial in trials}):
    own = (studies[entry.submission].get(workload, {}) for entry in found)
    times.append((workload, *map(_in_words, own)))
  return [
    *table_lines(rows),
    '',
    'Seconds to the target, median over studies; (3/5): in three of five;',
    'never: in at most half of the studies; -: there is no run.',
    *table_lines(times),
  ]


def _in_words(seconds: Mapping[str, float]) -> str:
  if not seconds:
    return '-'
  values = list(seconds.values())
  median, reached = float(np.median(values)), int(np.isfinite(values).sum())
  text = f'{median:,.0f}' if math.isfinite(median) else 'never'
  partly = f' ({reached}/{len(values)})'
  return text if reached in (0, len(values)) else text + partly


def save_profiles(path: pathlib.Path, found: Sequence[Entry]) -> None:
  """Draws rho over the ratio as PNG, a stair per submission, the best first.

  Entries are of a board: a target is that of a workload under a condition.
  """
  from matplotlib.figure import Figure

  figure = Figure(figsize=(9.0, 4.2), dpi=120, layout='constrained')
  axes = figure.subplots()
  for entry, style in zip(found, line_styles()):
    stairs = entry.relative[entry.relative <= R_MAX]
    ratios = np.unique([1.0, *stairs, R_MAX])
    axes.step(
      ratios,
      profile(entry.relative, ratios),
      where='post',
      linewidth=1.6,
      label=f'{entry.submission}: {entry.score:.3f}',
      **style,
    )
  axes.set_xlim(1.0, R_MAX)
  axes.set_ylim(0.0, 1.02)
  axes.set_title('Targets reached within a multiple of the fewest steps')
  axes.set_xlabel('steps to the target / those of the fastest submission there')
  targets = found[0].relative.size
  axes.set_ylabel(
    f'targets reached, share of {targets}\n(workload × condition)'
  )
  axes.grid(alpha=0.25, linewidth=0.5)
  axes.legend(
    title='submission: score',
    fontsize='small',
    loc='upper left',
    bbox_to_anchor=(1.01, 1.0),
  )
  save_picture(figure, path)

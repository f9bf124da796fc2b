"""AlgoPerf's score, from times to the targets.

  t(s, w)      seconds until submission s reaches the target of workload w
  r(s, w)      t(s, w) / min over all submissions s' of t(s', w)
  rho(s, tau)  share of the base workloads with r(s, w) <= tau
  score(s)     integral of rho(s, tau) over 1 <= tau <= r_max, / (r_max - 1)

The published scores take the trapezoidal rule over 100 points for the integral.
What is exact is the mean over workloads of max(0, r_max - r) / (r_max - 1).

In 2024 base workloads had held-out variants. A base workload counts as not
reached where its variant isn't reached, or not within r_max times the fastest
submission's time; and a variant where its base workload isn't.

Source: Dahl et al. 2023, "Benchmarking Neural Network Training Algorithms",
section 4.4, and the scoring code of mlcommons/submissions_algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

R_MAX = 4.0
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
  'criteo1tb',
  'fastmri',
  'finewebedu_lm',
  'imagenet_resnet',
  'imagenet_vit',
  'librispeech_conformer',
  'librispeech_deepspeech',
  'ogbg',
  'wmt',
)

# Seconds by submission and workload; infinite where the target isn't reached.
Times = Mapping[str, Mapping[str, float]]


def base_workloads(times: Times) -> list[str]:
  """The workloads of which a score is made, in the order of their names.

  All that somebody has trained, but for variants of the benchmark's: theirs
  are the names of their base workloads and something behind it.
  """
  variants = tuple(f'{name}_' for name in _BENCHMARK)
  names = {workload for own in times.values() for workload in own}
  return sorted(name for name in names if not name.startswith(variants))


def base_times(
  times: Times, base: Sequence[str], r_max: float = R_MAX
) -> dict[str, dict[str, float]]:
  """Times on the base workloads that count, after the rule of held-out ones.

  Args:
    times: of all submissions that are compared; what a submission lacks, it
      hasn't reached. Without times on held-out workloads nothing changes but
      that times above r_max times the fastest one become infinite.
    base: names of the base workloads.
    r_max: the largest ratio that counts.
  """
  variants = {
    variant: workload
    for variant, workload in HELD_OUT.items()
    if workload in base and any(variant in t for t in times.values())
  }
  kept = {
    name: {w: t.get(w, math.inf) for w in (*base, *variants)}
    for name, t in times.items()
  }
  for own in kept.values():
    for variant, workload in variants.items():
      if math.isinf(own[workload]):
        own[variant] = math.inf
  for workload in (*base, *variants):
    longest = r_max * min(own[workload] for own in kept.values())
    for own in kept.values():
      if own[workload] > longest:
        own[workload] = math.inf
  for own in kept.values():
    for variant, workload in variants.items():
      if math.isinf(own[variant]):
        own[workload] = math.inf
  return {name: {w: own[w] for w in base} for name, own in kept.items()}


def ratios(times: Times) -> dict[str, np.ndarray]:
  """r(s, w) over the workloads, shape=(workloads,); infinite if not reached.

  Args:
    times: as `base_times` gives them, the same workloads for each submission.
  """
  seconds = np.array([list(own.values()) for own in times.values()], float)
  fastest = seconds.min(axis=0)
  # Where nobody has reached a target, nobody has a ratio.
  relative = seconds / np.where(np.isfinite(fastest), fastest, 1.0)
  return dict(zip(times, relative))


def profile(relative: np.ndarray, taus: np.ndarray) -> np.ndarray:
  """rho(tau), the share of workloads with a ratio of at most tau.

  Args:
    relative: shape=(workloads,).
    taus: shape=(n,).

  Returns:
    shape=(n,).
  """
  return (relative[:, None] <= taus).mean(axis=0)


def score(relative: np.ndarray, r_max: float = R_MAX) -> float:
  """The integral of the profile as the published scores have it, from 0 to 1.

  Example: of three workloads one is reached first of all, r = 1, one in twice
  the best time and one never: (1 + (4 - 2) / 3 + 0) / 3 = 0.556, and 0.557 over
  100 points.

  Args:
    relative: shape=(workloads,); r(s, w) of a submission.
    r_max: upper bound of the integral.
  """
  taus = np.linspace(1.0, r_max, _NUM_POINTS)
  rho = profile(relative, taus)
  return float((rho[1:] + rho[:-1]).mean() / 2)


def exact_score(relative: np.ndarray, r_max: float = R_MAX) -> float:
  """The integral without its points: mean of max(0, r_max - r) / (r_max - 1).

  Args:
    relative: shape=(workloads,); r(s, w) of a submission.
    r_max: upper bound of the integral.
  """
  return float(np.clip(r_max - relative, 0.0, None).mean() / (r_max - 1))

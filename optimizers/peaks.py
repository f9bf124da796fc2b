"""The peak in proportion to the weights.

An Adam-like step moves every weight by about the learning rate, whatever the
gradient's size. So a rate says little until it is held against the weights: a
step of .003 is small for weights of size 1, and breaks weights of size .003.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Protocol

import jax
import numpy as np

from ..core.checks import Checked, Positive
from ..core.forms import as_stack, by_shape
from .step import RunStart


class Peak(Protocol):
  """Scales all peaks so that they suit the weights, and the steps of cycles."""

  def peak(self, start: RunStart) -> float:
    """The first cycle's peak; NaN where no parameter tells the peak."""

  def length_factor(self, steps: int) -> float:
    """Factor on the peak of a cycle that ends after so many steps."""
    return 1.0

  def needs_forms(self) -> bool:
    """Whether it asks what the parameters are; see `RunStart.forms`."""
    return False


@dataclasses.dataclass(frozen=True)
class RelativePeak(Checked, Peak):
  """The first peak is a share of the weights' size.

    peak = share * geometric mean of rms(W) over the matrices and kernels W

  rms is the root mean square over a fresh model. W is every parameter with more
  than one axis that does not begin at 0: tables of words, kernels with a single
  column, and also a bias or a scale that has two axes. It goes by axes, not by
  forms, which do not tell a single column from a bias. Other vectors say
  nothing of a model's size.

  On the models of nine workloads of the benchmark the published rate of
  Schedule-Free AdamW, .0025, is a share of .045 to .089, and .062 is their
  geometric mean.

  Source: Shazeer and Stern 2018, "Adafactor", section 8, scale the rate of each
  matrix by its own rms; one factor for a whole model is ours.
  """

  share: Positive = 0.06  # of the weights' size, that a step at the peak takes

  def peak(self, start: RunStart) -> float:
    leaves = map(np.asarray, jax.tree_util.tree_leaves(start.params))
    kernels = [w for w in leaves if w.ndim > 1 and w.size > 0]
    squares = [np.mean(np.square(w, dtype=float)) for w in kernels]
    return self.share * _mean_root(squares)


@dataclasses.dataclass(frozen=True)
class SpectralPeak(Checked, Peak):
  """The first peak is a share of the matrices' spectral size.

    peak = share * sqrt(min(1, whole / steps)) * size
    size = geometric mean of rms(W) sqrt(fan_in) over the matrices W

  The matrices are those that `Muon` orthogonalises. Each matrix of a stack
  counts. rms(W) sqrt(fan_in) is the root mean square of W's output for an input
  of root mean square 1: it is 1 for weights of variance 1 / fan_in, and of the
  order of W's spectral norm. The rate is about the spectral norm of a step that
  does not widen. Matrices that begin at 0 say nothing.

  On the models of nine workloads of the benchmark that size is .74 to 1.00, so
  that the published rate of Muon in JAX, .0039, is a share of .0039 to .0052.

  Here `steps` are those until a cycle ends, by the plan with which a run or a
  stage begins: a horizon, a repetition or a chain begun anew changes no peak.
  Cycles that end within `whole` steps take the whole share, and so do runs
  whose steps are unknown. A later end takes less, as the best constant rate of
  a convex bound does, D / (G sqrt(steps)): with the defaults, .0062 where a
  plan of 200,000 steps ends. So the first cycles of a chain, which end early,
  step further than the last. Where gradients are noise alone, a matrix steps by
  a third of that, and by less later in a long run; see `Muon`.

  Source: as for `RelativePeak`; a step's spectral norm beside the weights'
  spectral norm, Yang et al. 2023, "A spectral condition for feature learning";
  the bound: Zinkevich 2003, "Online convex programming".
  """

  share: Positive = 0.16  # of the matrices' size, that a step at the peak takes
  whole: Positive = 300.0  # steps up to which a cycle has the whole share

  def needs_forms(self) -> bool:
    return True

  def length_factor(self, steps: int) -> float:
    return float(self.length_in(np, steps))

  def length_in(self, xp: Any, steps: Any) -> Any:
    """`length_factor` by one of the two libraries; 1 for steps of None."""
    steps = self.whole if steps is None else steps
    return xp.sqrt(xp.minimum(1.0, self.whole / steps))

  def peak(self, start: RunStart) -> float:
    length_factor = float(self.length_in(np, start.steps))
    return self.share * length_factor * float(spectral_size(np, start))


def spectral_size(xp: Any, start: RunStart) -> Any:
  """The matrices' size of `SpectralPeak`, computed by one of two libraries.

  Args:
    xp: numpy, in float64; or jax.numpy, which may be traced.
    start: with jax.numpy, the parameters may be traced.

  Returns:
    shape=(); NaN where no parameter tells the size.
  """
  leaves = [xp.asarray(w) for w in jax.tree_util.tree_leaves(start.params)]
  forms = start.forms or [by_shape(w.shape) for w in leaves]
  logs = [
    _log_sizes(xp, as_stack(w, form))
    for w, form in zip(leaves, forms)
    if form.is_matrix and w.size
  ]
  return _geometric_mean(xp, xp.concatenate(logs)) if logs else math.nan


def _log_sizes(xp: Any, stack: Any) -> Any:
  """log(rms(W) sqrt(fan_in)) of each matrix of a stack; NaN where it is 0.

  NaN as well for a matrix with a value that is not finite. The largest entry is
  divided out first: squares of tiny entries leave the range of float32.
  """
  stack = xp.asarray(stack, float)
  largest = xp.max(xp.abs(stack), axis=(1, 2), keepdims=True)
  is_usable = xp.isfinite(largest) & (largest > 0)
  parts = xp.where(is_usable, stack, 1.0) / xp.where(is_usable, largest, 1.0)
  squares = stack.shape[1] * xp.mean(xp.square(parts), axis=(1, 2))
  scale = xp.where(is_usable, largest, math.nan)[:, 0, 0]
  return xp.log(scale) + 0.5 * xp.log(squares)


def _geometric_mean(xp: Any, logs: Any) -> Any:
  """Of the numbers with these logarithms; NaN counts for nothing."""
  is_usable = xp.isfinite(logs)
  count = xp.sum(is_usable)
  total = xp.sum(xp.where(is_usable, logs, 0.0))
  mean = xp.exp(total / xp.maximum(count, 1))
  return xp.where(count > 0, mean, math.nan)


def _mean_root(squares: Iterable[float]) -> float:
  """The geometric mean of the roots of finite numbers above 0, or NaN."""
  logs = [0.5 * math.log(s) for s in squares if 0.0 < s < math.inf]
  return math.exp(np.mean(logs)) if logs else math.nan

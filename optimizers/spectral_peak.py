"""The peak in proportion to the weights, for steps of a given spectral norm."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from ..core.checks import Positive
from .muon import is_matrix, split_of
from .peaks import RelativePeak, mean_root


@dataclasses.dataclass(frozen=True)
class SpectralPeak(RelativePeak):
  """Scales all peaks, so that the first one suits the matrices' spectral norm.

    peak = share * sqrt(min(1, whole / steps))
           * geometric mean of rms(W) sqrt(fan_in) over the matrices W

  The matrices are those that `ScheduleFreeMuon` orthogonalises, split into in
  and out as it splits them. rms(W) sqrt(fan_in) is the root mean square of what
  comes out of W for an input of root mean square 1: 1 for weights of variance
  1 / fan_in. It is of the order of W's spectral norm, and the rate is about
  the spectral norm of a step that does not widen. Matrices that begin at 0 say
  nothing.

  On the models of nine workloads of the benchmark that size is .74 to 1.00, so that
  the published rate of Muon in JAX, .0039, is a share of .0039 to .0052.

  The share is of runs of up to `whole` steps, as planned. A longer run takes less,
  as the best constant rate of a convex bound does, D / (G sqrt(steps)): with the
  defaults, .0069 on a plan of 200,000 steps.

  Source: as for `RelativePeak`; that a step's spectral norm is held against that
  of the weights, Yang et al. 2023, "A spectral condition for feature learning";
  the bound: Zinkevich 2003, "Online convex programming".
  """

  share: Positive = 0.08  # of the matrices' size, that a step at the peak takes
  whole: Positive = 1500.0  # steps of the longest run that takes it whole

  def peak(
    self,
    params: Any,
    matrices: tuple[bool, ...] | None = None,
    steps: int | None = None,
  ) -> float:
    """See `RelativePeak.peak`; what is told to be no matrix is left out.

    Where the steps are unknown, the share is whole.
    """
    leaves = [np.asarray(w) for w in jax.tree_util.tree_leaves(params)]
    told = matrices or (True,) * len(leaves)
    squares = [
      split_of(w.shape)[0] * float(np.mean(np.square(w, dtype=float)))
      for w, is_told in zip(leaves, told)
      if is_told and is_matrix(w.shape)
    ]
    length = math.sqrt(min(1.0, self.whole / steps)) if steps else 1.0
    return self.share * length * mean_root(squares)

"""The peak in proportion to the weights.

An Adam-like step moves every weight by about the learning rate, whatever the
gradient's size. So a rate says little until it is held against the weights: a
step of .003 is small for weights of size 1, and breaks weights of size .003.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ..core.checks import Checked, Positive


@dataclasses.dataclass(frozen=True)
class RelativePeak(Checked):
  """Scales all peaks by one factor, so that the first one suits the weights.

    peak = share * geometric mean of rms(W) over the matrices and kernels W

  rms is the root mean square over a fresh model. Vectors, such as biases, and
  matrices that begin at 0 say nothing of a model's size.

  On the models of nine workloads of the benchmark the published rate of
  Schedule-Free AdamW, .0025, is a share of .045 to .089, and .062 is their
  geometric mean.

  Source: Shazeer and Stern 2018, "Adafactor", section 8, scale the rate of each
  matrix by its own rms; one factor for a whole model is ours.
  """

  share: Positive = 0.06  # of the weights' size, that a step at the peak takes

  def peak(
    self,
    params: Any,
    matrices: tuple[bool, ...] | None = None,
    steps: int | None = None,
  ) -> float:
    """The peak that suits fresh parameters; NaN where nothing tells it.

    Args:
      params: the tree of a fresh model's parameters.
      matrices: of each of its leaves, in order, whether its layer multiplies by
        it; None: unknown. Not looked at here: tables of words count as well.
      steps: those of the chain as planned; None: unknown. Not looked at here.
    """
    leaves = map(np.asarray, jax.tree_util.tree_leaves(params))
    kernels = [w for w in leaves if w.ndim > 1 and w.size > 0]
    squares = [np.mean(np.square(w, dtype=float)) for w in kernels]
    return self.share * mean_root(squares)


def mean_root(squares: Iterable[float]) -> float:
  """The geometric mean of the roots of those above 0 and finite; NaN if none."""
  logs = [0.5 * math.log(s) for s in squares if 0.0 < s < math.inf]
  return math.exp(np.mean(logs)) if logs else math.nan

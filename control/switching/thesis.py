"""The thesis' rule: S(t) on the smoothed validation loss."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ... import early_switching
from ...early_switching import SmoothedLoss
from ...settings.kinds import Count, Number, Share
from ..state import Evaluation
from .rule import SWITCHING_RULES, Context, Verdict


@SWITCHING_RULES.register(name='thesis')
@dataclasses.dataclass(frozen=True)
class Thesis:
  """S(t) = 1 leaves the cycle; see `early_switching`.

  Attributes:
    lam: lambda, weight of the newest loss in the smoothed loss. LARGER smooths
      LESS (the thesis calls it momentum).
    eps1: epsilon_1, the rise of the smoothed loss that ends a cycle.
    eps2: epsilon_2, how far above its minimum the smoothed loss, extrapolated m
      evaluations ahead, may be.
    k: evaluations without a new minimum before epsilon_2 counts.
    m: evaluations to look ahead. The thesis advises m = k > 5.

  Source: thesis, section 3.3.1; the defaults are figure 3.7's.
  """

  lam: Share = 0.7
  eps1: Number = 0.01
  eps2: Number = 0.01
  k: Count = 9
  m: Count = 9

  initial: ClassVar[SmoothedLoss] = early_switching.NO_LOSS_YET
  columns: ClassVar[tuple[str, ...]] = (
    'smoothed_loss',
    'derivative',
    'case1',
    'case2',
    'stopping',
  )

  def observe(
    self, state: SmoothedLoss, evaluation: Evaluation, context: Context
  ) -> tuple[SmoothedLoss, Verdict]:
    """See `SwitchingRule`."""
    del context
    state = early_switching.smooth_loss(state, evaluation.loss, self.lam)
    stopping = early_switching.is_stopping_early(
      state, self.eps1, self.eps2, self.k, self.m
    )
    terms = {
      'smoothed_loss': state.value,
      'derivative': state.derivative,
      'case1': int(stopping.case1),
      'case2': int(stopping.case2),
      'stopping': int(stopping.stopping),
    }
    return state, Verdict(stopping.reason, terms)

"""The thesis' goal: the final target, at all times."""

from __future__ import annotations

import dataclasses

from ..state import Target
from .goal import GOALS


@GOALS.register(name='final')
@dataclasses.dataclass(frozen=True)
class Final:
  """The workload's validation target. Source: thesis, section 3.3.2."""

  def metric(
    self, target: Target, first_metric: float, share_of_run: float
  ) -> float:
    """See `Goal`."""
    del first_metric, share_of_run
    return target.value

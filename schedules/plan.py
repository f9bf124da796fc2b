"""A cycle as it is written, before it is laid out over steps."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from ..settings.checks import check
from ..settings.hparams import Hparams
from ..settings.named import Setting, name_of
from .decays import HOLDING_DECAYS
from .phase import as_written


class CyclePlan(NamedTuple):
  """One cycle of a chain: all that is known of it without a step_hint.

  Attributes:
    warmup, decay: settings of WARMUPS and DECAYS.
    length: relative to the lengths of the chain's other cycles.
    peak: the learning rate at the end of the warm-up.
    warmup_share: the warm-up as an exact fraction of the cycle.
    weight_decay: where its shape is 1.
    weight_decay_shape: a setting of WEIGHT_DECAYS; None for a constant.
    hparams: the optimizer's numbers, dropout and label smoothing.
    optimizer, averaging, start_from: see `Cycle`.
  """

  warmup: Setting
  decay: Setting
  length: float
  peak: float
  warmup_share: Fraction
  weight_decay: float
  weight_decay_shape: Setting | None
  hparams: Hparams
  optimizer: Setting = 'adamw'
  averaging: Setting = 'none'
  start_from: str = ''


def check_warmup(
  plan: CyclePlan, name: str, value: float, right: str = 'such that it is '
) -> None:
  """Refuses a warm-up that leaves its cycle, or no room for its decay.

  Args:
    plan: the cycle.
    name, value: of the setting that the warm-up's length comes from.
    right: how what would be right begins.

  Raises:
    ValueError: if the warm-up's share is not one.
  """
  share, limit = plan.warmup_share, HOLDING_DECAYS.get(name_of(plan.decay))
  check(share >= 0, name, value, right + 'at least 0: no negative warm-up')
  check(
    share <= 1,
    name,
    value,
    right + 'at most 1: no warm-up longer than its cycle',
  )
  if limit is not None and plan.warmup != 'none':
    check(
      share < as_written(limit),
      name,
      value,
      f'{right}below {limit}: the {plan.decay} decay holds the peak for '
      'the warm-up and 20 % of the cycle, and has no room left',
    )

"""Schedule-Free's average around AdamW and around Muon."""

from __future__ import annotations

from .adamw import Rms, RmsW
from .average import Averaged
from .muon import Muon


def ScheduleFreeAdamW(
  one_minus_beta1: float = 0.1,
  beta2: float = 0.9955159689799007,
  weight_decay: float = 0.08121616522670176,
  eps: float = 1e-8,
  grad_clip: float | None = None,
  r: float = 0.75,
  weight_lr_power: float = 2.0,
) -> Averaged:
  """Schedule-Free AdamW: the average takes the place of the first moment.

  The defaults are the numbers of `SOFT_RESET`, from the self-tuning winner of
  2024.

  Args:
    one_minus_beta1, r, weight_lr_power: see `Averaged`.
    beta2, weight_decay, eps, grad_clip: see `RmsW`.

  Source: Defazio et al. 2024, "The road less scheduled", algorithm 1.
  """
  inner = RmsW(
    beta2=beta2, eps=eps, weight_decay=weight_decay, grad_clip=grad_clip
  )
  return Averaged(inner, one_minus_beta1, r, weight_lr_power)


def ScheduleFreeMuon(
  one_minus_beta1: float = 0.3,
  beta2: float = 0.9955159689799007,
  weight_decay: float = 0.3,
  eps: float = 1e-8,
  grad_clip: float | None = None,
  r: float = 2.0,
  weight_lr_power: float = 2.0,
  momentum: float = 0.8,
  rest_share: float = 0.2,
  coherence: float = 1.0,
  decay_lr_power: float = 1.0,
  growth_start: float | None = 1000.0,
  fall_start: float | None = 300.0,
  least_norm: float | None = 5.0,
) -> Averaged:
  """Muon inside Schedule-Free's average; Adam without a first moment elsewhere.

  The defaults are the numbers of `MUON`, the settings in force.

  Args:
    one_minus_beta1, r, weight_lr_power: see `Averaged`.
    beta2, eps: see `Rms`.
    momentum, growth_start, fall_start, coherence: see `Muon`.
    grad_clip, least_norm: see `Muon`.
    weight_decay, decay_lr_power: see `Muon`. A step shrinks the weights by
      weight_decay rate^2 / size; with a decay_lr_power of 0, as in AdamW, by
      weight_decay times the rate.
    rest_share: of the rate, for what is no matrix; for tables less from step
      fall_start on.

  The combination of both is ours.
  """
  rest = Rms(beta2, eps)
  inner = Muon(
    momentum=momentum,
    growth_start=growth_start,
    coherence=coherence,
    weight_decay=weight_decay,
    decay_lr_power=decay_lr_power,
    rest=rest,
    rest_share=rest_share,
    fall_start=fall_start,
    grad_clip=grad_clip,
    least_norm=least_norm,
  )
  return Averaged(inner, one_minus_beta1, r, weight_lr_power)

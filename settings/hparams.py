"""The optimizer's hyperparameters."""

from __future__ import annotations

import dataclasses

from .kinds import (
  BelowOne,
  Fraction01,
  NotNegative,
  OrNone,
  Positive,
  Share,
)
from .named import read_fields


@dataclasses.dataclass(frozen=True)
class Hparams:
  """The optimizer's hyperparameters.

  The defaults are the thesis' (those of the benchmark's self-tuning NadamW
  baseline, used with AdamW).

  Attributes:
    dropout_rate: probability; in force where model_fn takes it (main). In
      v0.5.0 the runner builds the model: with this rate under the external
      ruleset, with the model's default under self-tuning.
    learning_rate: peak of a cycle before its alter_lr is added.
    one_minus_beta1: 1 - beta1 of Adam.
    beta2: beta2 of Adam.
    weight_decay: decoupled, multiplied with the learning rate.
    warmup_factor: warm-up as a fraction of the cycle.
    eps: Adam's epsilon.
    grad_clip: largest global norm of the gradient, or None for no clipping.
    label_smoothing: passed to the workload's loss function.
  """

  dropout_rate: BelowOne = 0.1
  learning_rate: Positive = 0.0017486387539278373
  one_minus_beta1: Share = 0.06733926164
  beta2: BelowOne = 0.9955159689799007
  weight_decay: NotNegative = 0.08121616522670176
  warmup_factor: Fraction01 = 0.02
  eps: Positive = 1e-8
  grad_clip: OrNone(Positive) = None
  label_smoothing: BelowOne = 0.0

  def __post_init__(self) -> None:
    read_fields(self)


HPARAMS = Hparams()

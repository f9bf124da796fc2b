"""The optimizer's hyperparameters."""

from __future__ import annotations

import dataclasses
import math

from .checks import check_number, check_positive, check_weight


@dataclasses.dataclass(frozen=True)
class Hparams:
  """The optimizer's hyperparameters, the same for all cycles.

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

  dropout_rate: float = 0.1
  learning_rate: float = 0.0017486387539278373
  one_minus_beta1: float = 0.06733926164
  beta2: float = 0.9955159689799007
  weight_decay: float = 0.08121616522670176
  warmup_factor: float = 0.02
  eps: float = 1e-8
  grad_clip: float | None = None
  label_smoothing: float = 0.0

  def __post_init__(self):
    share = 'a number from 0 up to, not including, 1'
    below_one = math.nextafter(1.0, 0.0)
    for name in ('dropout_rate', 'beta2', 'label_smoothing'):
      check_number(name, getattr(self, name), 0.0, below_one, share)
    for name in ('learning_rate', 'eps'):
      check_positive(name, getattr(self, name))
    if self.grad_clip is not None:
      check_positive('grad_clip', self.grad_clip)
    check_weight('one_minus_beta1', self.one_minus_beta1)
    not_negative = 'a number of at least 0'
    check_number('weight_decay', self.weight_decay, 0.0, math.inf, not_negative)
    fraction = 'a number from 0 to 1'
    check_number('warmup_factor', self.warmup_factor, 0.0, 1.0, fraction)


HPARAMS = Hparams()

"""A cycle written as a whole setting: one object, or the name of one.

  {'learning_rate': 0.002, 'optimizer': 'nadamw', 'length': 2.0}
  'lawa_queue/2'
  {'name': 'lawa_queue/2', 'length': 0.5}

An object without a name is the setting 'own'. Fields that a setting leaves out
come from the configuration's `hparams`, `optimizer` and `averaging`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..averaging import AVERAGES
from ..optimizers import INNER
from ..optimizers.inner import check_numbers
from ..schedules.decays import DECAYS
from ..schedules.phase import as_written
from ..schedules.plan import CyclePlan, check_warmup
from ..schedules.warmups import WARMUPS
from ..schedules.weight_decay import WEIGHT_DECAYS
from ..settings.hparams import Hparams
from ..settings.kinds import (
  BelowOne,
  Choice,
  Fraction01,
  NotNegative,
  OrNone,
  Positive,
  Share,
)
from ..settings.named import Registry, Setting, as_plain

CYCLES = Registry('cycle')
# Stands for the configuration's value; None would be a value of grad_clip.
INHERITED: Any = ...

Warmup = WARMUPS.as_kind()
Decay = DECAYS.as_kind()
WeightDecayShape = OrNone(WEIGHT_DECAYS.as_kind())
OfInner = INNER.as_kind()
OfAverages = AVERAGES.as_kind()
StartFrom = Choice('', 'fresh', 'current', 'best')


@CYCLES.register(name='own')
@dataclasses.dataclass(frozen=True)
class CycleSetting:
  """Everything that may be set for a single cycle.

  Attributes:
    warmup, decay: shapes of WARMUPS and DECAYS.
    length: relative to those of the chain's other cycles. For a published
      setting it is the decay's end as a share of step_hint.
    learning_rate: the peak.
    weight_decay_shape: a shape of WEIGHT_DECAYS; None for a constant.
    optimizer, averaging: parts of INNER and AVERAGES.
    start_from: '' (as reset_mode says), 'fresh', 'current' or 'best'; see
      `schedules.cycle.Cycle`.

  The other fields are those of `Hparams`.
  """

  warmup: Warmup = 'linear'
  decay: Decay = 'cosine'
  length: Positive = 1.0
  learning_rate: Positive = INHERITED
  one_minus_beta1: Share = INHERITED
  beta2: BelowOne = INHERITED
  eps: Positive = INHERITED
  weight_decay: NotNegative = INHERITED
  weight_decay_shape: WeightDecayShape = None
  warmup_factor: Fraction01 = INHERITED
  grad_clip: OrNone(Positive) = INHERITED
  label_smoothing: BelowOne = INHERITED
  dropout_rate: BelowOne = INHERITED
  optimizer: OfInner = INHERITED
  averaging: OfAverages = INHERITED
  start_from: StartFrom = ''


def read_cycle(where: str, value: object) -> Setting:
  """Reads and checks a cycle.

  Args:
    where: what to call it in an error.
    value: in any of the forms that the module's docstring shows.

  Raises:
    ValueError: see `Registry.read`.
  """
  plain = as_plain(value)
  if isinstance(plain, Mapping) and 'name' not in plain:
    plain = {'name': 'own', **plain}
  return CYCLES.read(where, plain)


def is_inherited(setting: Setting, name: str) -> bool:
  """Whether a cycle takes a hyperparameter from the configuration.

  Args:
    setting: as `read_cycle` returns it.
    name: of a field of `Hparams`.
  """
  return getattr(CYCLES.make(setting), name) is INHERITED


def plan_of_setting(
  setting: Setting, hparams: Hparams, optimizer: Setting, averaging: Setting
) -> CyclePlan:
  """The cycle that a setting describes.

  Args:
    setting: as `read_cycle` returns it.
    hparams, optimizer, averaging: used for fields that the setting leaves out.
  """
  given = CYCLES.make(setting)
  values = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
  own = {name: v for name, v in values.items() if v is not INHERITED}
  names = {field.name for field in dataclasses.fields(Hparams)}
  hparams = dataclasses.replace(
    hparams, **{name: own[name] for name in sorted(names & set(own))}
  )
  return CyclePlan(
    warmup=given.warmup,
    decay=given.decay,
    length=given.length,
    peak=hparams.learning_rate,
    warmup_share=as_written(hparams.warmup_factor),
    weight_decay=hparams.weight_decay,
    weight_decay_shape=given.weight_decay_shape,
    hparams=hparams,
    optimizer=own.get('optimizer', optimizer),
    averaging=own.get('averaging', averaging),
    start_from=given.start_from,
  )


def check_setting(plan: CyclePlan, where: str) -> None:
  """Refuses a cycle whose numbers contradict each other.

  Args:
    plan: as returned by `plan_of_setting`.
    where: what to call it, such as 'cycles[1]'.

  Raises:
    ValueError: if the warm-up leaves no room for the decay, or the optimizer
      cannot work with the numbers.
  """
  check_warmup(plan, f'{where}.warmup_factor', plan.hparams.warmup_factor)
  check_numbers(plan.optimizer, plan.hparams, where)

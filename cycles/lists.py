"""The thesis' way to write a chain: parallel lists with one entry per cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..schedules.phase import as_written
from ..schedules.plan import CyclePlan, check_warmup
from ..settings.checks import check
from ..settings.hparams import Hparams
from ..settings.named import Setting

CHAIN = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')
OPTIONAL_LISTS = ('weight_decays', 'alter_weight_decay')


class Lists(Protocol):
  """The lists of a chain, and what all of its cycles share."""

  warmups: Sequence[Setting]
  decays: Sequence[Setting]
  alter_lr: Sequence[float]
  alter_warmup: Sequence[float]
  lengths: Sequence[float]
  weight_decays: Sequence[Setting]
  alter_weight_decay: Sequence[float]
  hparams: Hparams
  optimizer: Setting
  averaging: Setting


def plans_of_lists(s: Lists) -> tuple[CyclePlan, ...]:
  """The cycles that parallel lists describe; see ScheduleParams.

  Source: thesis, section 3.1.
  """
  return tuple(_plan(s, i) for i in range(len(s.decays)))


def _plan(s: Lists, i: int) -> CyclePlan:
  hparams, shape = s.hparams, None
  if s.weight_decays or s.alter_weight_decay:
    shape = s.weight_decays[i] if s.weight_decays else 'constant'
  added = s.alter_weight_decay[i] if s.alter_weight_decay else 0.0
  return CyclePlan(
    warmup=s.warmups[i],
    decay=s.decays[i],
    length=s.lengths[i],
    peak=hparams.learning_rate + s.alter_lr[i],
    warmup_share=as_written(hparams.warmup_factor)
    + as_written(s.alter_warmup[i]),
    weight_decay=hparams.weight_decay + added,
    weight_decay_shape=shape,
    hparams=hparams,
    optimizer=s.optimizer,
    averaging=s.averaging,
  )


def check_lists(s: Lists) -> None:
  """Refuses lists that do not describe a chain.

  Raises:
    ValueError: if they differ in length, or a cycle's peak, weight decay or
      warm-up is out of range.
  """
  _check_lengths(s)
  for i, plan in enumerate(plans_of_lists(s)):
    base = s.hparams.learning_rate
    check(
      plan.peak > 0,
      f'alter_lr[{i}]',
      s.alter_lr[i],
      f'a number above -{base}, so that the peak is positive',
    )
    right = f'such that warmup_factor ({s.hparams.warmup_factor}) plus it is '
    check_warmup(plan, f'alter_warmup[{i}]', s.alter_warmup[i], right)
    if s.alter_weight_decay:
      base = s.hparams.weight_decay
      check(
        plan.weight_decay >= 0,
        f'alter_weight_decay[{i}]',
        s.alter_weight_decay[i],
        f'a number of at least -{base}, so that no weight decay is negative',
      )


def _check_lengths(s: Lists) -> None:
  given = tuple(name for name in OPTIONAL_LISTS if getattr(s, name))
  counts = {name: len(getattr(s, name)) for name in CHAIN + given}
  if len(set(counts.values())) > 1 or 0 in counts.values():
    listed = ', '.join(f'{name} has {n}' for name, n in counts.items())
    raise ValueError(
      'The lists of a chain must have one entry per cycle, the same number in '
      f'each and at least one: {listed}.'
    )

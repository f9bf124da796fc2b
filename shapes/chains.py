"""A chain of cycles as the thesis writes it."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.schedules import Cosine, Cycle, LinearWarmup, Shape, as_written


def chain_of_lists(
  alter_lr: Sequence[float] = (0.0, 0.0, 0.0),
  alter_warmup: Sequence[float] = (0.0, 0.0, 0.0),
  warmups: Sequence[Shape] = (LinearWarmup(),) * 3,
  decays: Sequence[Shape] = (Cosine(),) * 3,
  learning_rate: float = Cycle.peak,
  warmup_factor: float = Cycle.warmup_factor,
) -> tuple[Cycle, ...]:
  """A chain as the thesis writes it: lists with one entry per cycle.

  Args:
    alter_lr: added to learning_rate; the sum is a cycle's peak.
    alter_warmup: added to warmup_factor, a share of the cycle.
    warmups, decays: shapes.
    learning_rate, warmup_factor: the numbers that all cycles share.

  Returns:
    Cycles of equal length.

  Raises:
    ValueError: if the lists differ in length, or a sum is out of range.

  Source: thesis, section 3.1.
  """
  counts = [len(alter_lr), len(alter_warmup), len(warmups), len(decays)]
  if len(set(counts)) > 1:
    raise ValueError(
      'The lists of a chain must have one entry per cycle, the same number in '
      'each: alter_lr, alter_warmup, warmups, decays have '
      f'{", ".join(map(str, counts))}.'
    )
  share = as_written(warmup_factor)
  return tuple(
    Cycle(
      peak=learning_rate + added,
      warmup_factor=float(share + as_written(more)),
      warmup=warmup,
      decay=decay,
    )
    for added, more, warmup, decay in zip(
      alter_lr, alter_warmup, warmups, decays
    )
  )

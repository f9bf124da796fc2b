"""MUON, SOFT_RESET, and ablations of the latter: one part left out, or all.

MUON is as it is handed in. before_the_law, with a fixed share, was handed in
before it, and before that SOFT_RESET, with Schedule-Free AdamW.

The board's runs are some 200 steps long, a hundredth of the benchmark's. As
every rival has a factor on its rates there, `double_share` has one on its
share. The ablations are those of `double_share`; what changes MUON itself is in
`OF_MUON`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ....core.checks import replaced_at
from ....core.schedules import Constant, LinearWarmup
from ....early_switching import (
  AnyOf,
  ChainLossRule,
  Progress,
  SwitchingRule,
)
from ....optimizers.peaks import RelativePeak
from ....schedule_params import MUON, SOFT_RESET, ScheduleParams
from ....soft_reset import Cyclic, FullReset
from ...former import BEFORE_THE_LAW

_RESET: Any = SOFT_RESET.reset
_MUON_PEAK: Any = MUON.relative_peak
_OPTIMIZER: Any = SOFT_RESET.optimizer
_PEAK: Any = SOFT_RESET.relative_peak
_RATE, _DECAY = SOFT_RESET.cycles[0].peak, _OPTIMIZER.weight_decay
_FACTOR = 2.0  # chosen on the selection set
_DOUBLE_SHARE = dataclasses.replace(
  SOFT_RESET, relative_peak=RelativePeak(_FACTOR * _PEAK.share)
)


def _without(**changes: Any) -> ScheduleParams:
  return dataclasses.replace(_DOUBLE_SHARE, **changes)


def _with_cycles(**changes: Any) -> ScheduleParams:
  cycles = SOFT_RESET.cycles
  return _without(cycles=[dataclasses.replace(c, **changes) for c in cycles])


def _with_optimizer(**changes: Any) -> ScheduleParams:
  return _without(optimizer=dataclasses.replace(_OPTIMIZER, **changes))


# Its optimizer alone: one cycle over the run, ended by its decay.
_BARE = _without(
  cycles=SOFT_RESET.cycles[:1],
  reset=Cyclic(),
  relative_peak=None,
  early_switching=False,
)


def _by(rule: SwitchingRule, factor: float) -> ScheduleParams:
  """MUON with a switching rule, at this multiple of its share."""
  peak = dataclasses.replace(_MUON_PEAK, share=factor * _MUON_PEAK.share)
  return dataclasses.replace(MUON, switching=rule, relative_peak=peak)


_PROGRESS = Progress(window=0.06)
_RULES: dict[str, SwitchingRule] = {
  'by_progress': _PROGRESS,
  'by_either': AnyOf((ChainLossRule(), _PROGRESS)),
  'by_either_sooner': AnyOf((ChainLossRule(lam=0.9, k=0.15), _PROGRESS)),
}
_FACTORS = {'': 1.0, '_ten_times': 10.0, '_a_tenth': 0.1}


def _with_reset(**changes: Any) -> ScheduleParams:
  return dataclasses.replace(MUON, reset=dataclasses.replace(_RESET, **changes))


# Changes of MUON, all at the rates that are handed in.
OF_MUON = {
  # Entries that tell what S(t) brings beside progress: `speakers`.
  **{
    f'{name}{suffix}': _by(rule, factor)
    for suffix, factor in _FACTORS.items()
    for name, rule in _RULES.items()
  },
  'MUON_one_cycle': dataclasses.replace(
    MUON, cycles=MUON.cycles[:1], early_switching=False
  ),
  'MUON_without_soft': dataclasses.replace(MUON, reset=Cyclic()),
  'MUON_with_alpha_0': _with_reset(alpha=0.0),
  'MUON_without_fade': _with_reset(fade=0.0),
  # tau is measured against a progress in proportion to the time.
  'MUON_expected': _with_reset(fade=0.0, expected=LinearWarmup()),
}
ABLATIONS: dict[str, ScheduleParams] = {
  'MUON': MUON,
  'before_the_law': BEFORE_THE_LAW,
  'SOFT_RESET': SOFT_RESET,
  'double_share': _DOUBLE_SHARE,
  'bare': _BARE,
  # The same at twice the rate; a step's weight decay is the same.
  'bare_double_rate': replaced_at(
    replaced_at(_BARE, 'cycles.peak', 2.0 * _RATE),
    'optimizer.inner.weight_decay',
    0.5 * _DECAY,
  ),
  # Cycles begin with the model as it is: warm restarts of the rate.
  'without_soft': _without(reset=Cyclic()),
  # Cycles begin with a fresh model.
  'with_full': _without(reset=FullReset()),
  # tau is the thesis', also where little of the run remains.
  'without_fade': _without(reset=dataclasses.replace(_RESET, fade=0.0)),
  # A soft reset leaves the moments as they are.
  'with_alpha_0': _without(reset=dataclasses.replace(_RESET, alpha=0.0)),
  # The published peak, with the factor of the board.
  'without_relative_peak': _without(relative_peak=None),
  # No cycle ends early.
  'without_progress': _without(early_switching=False),
  # The rate is constant up to a cycle's end.
  'without_cooldown': _with_cycles(decay=Constant()),
  # Four cycles of equal length.
  'without_growth': _with_cycles(length=1.0),
  # One cycle over the whole run.
  'without_cycles': _without(cycles=SOFT_RESET.cycles[:1]),
  # All steps weigh alike in the average, but for their rates.
  'with_r_0': _with_optimizer(r=0.0),
  **OF_MUON,
}

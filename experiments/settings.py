"""The settings of the thesis' runs, each of which is a module in this folder.

A run that the thesis shows in several figures is here once. Peaks are those of
the first cycle, about 0.00175, plus alter_lr. What isn't named is THESIS':
three equal cycles over twice the step_hint, linear warm-up of 2 %, cosine decay.

The last two runs are not the thesis'. They take its comparisons apart: what the
learning rate does alone (cyclic), and what the parameters do alone (alpha = 0,
so that a soft reset leaves the moments as they are).

Source: thesis, chapters 2.3 and 3 and appendix A.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..schedule_params import THESIS, ScheduleParams
from ..settings.named import as_plain

_PEAKS = {'alter_lr': (0.0, 0.001, -0.001)}
_DECAYS = {'decays': ('cosine', 'holding_exponential', 'holding_linear')}
_WARMUPS = {'alter_warmup': (0.0, 0.18, -0.015)}
_FAILING = {'alter_lr': (0.0, 0.02, 0.05), 'reset_mode': 'full'}
_FAILED_START = {
  'warmups': ('linear', 'linear'),
  'decays': ('cosine', 'cosine'),
  'alter_lr': (0.05, 0.0),
  'alter_warmup': (0.0, 0.0),
  'lengths': (1.0, 1.0),
  'budget_factor': 1.0,
}
_ONE_CYCLE = {
  'warmups': ('linear',),
  'decays': ('cosine',),
  'alter_lr': (0.0,),
  'alter_warmup': (0.2,),
  'lengths': (1.0,),
}


def _with_lambda(lam: float) -> dict[str, Any]:
  """The thesis' rule with another smoothing of the loss."""
  return {**as_plain(THESIS.switching), 'lam': lam}


def _without_switching(**changes: Any) -> ScheduleParams:
  return dataclasses.replace(THESIS, early_switching=False, **changes)


RUNS: dict[str, ScheduleParams] = {
  'one_cycle': _without_switching(**_ONE_CYCLE),
  'peaks_full': _without_switching(**_PEAKS, reset_mode='full'),
  'peaks_kept': _without_switching(**_PEAKS, reset_mode='kept_momentum'),
  'peaks_soft': _without_switching(**_PEAKS, reset_mode='soft', alpha=0.5),
  'decays_full': _without_switching(**_DECAYS, reset_mode='full'),
  'decays_kept': _without_switching(**_DECAYS, reset_mode='kept_momentum'),
  'decays_soft': _without_switching(**_DECAYS, reset_mode='soft', alpha=0.5),
  'warmups_full': _without_switching(**_WARMUPS, reset_mode='full'),
  'warmups_kept': _without_switching(**_WARMUPS, reset_mode='kept_momentum'),
  'warmups_soft': _without_switching(**_WARMUPS, reset_mode='soft', alpha=0.5),
  # lambda as in figure 3.6, which shows the losses of this run.
  'failing_full': _without_switching(**_FAILING, switching=_with_lambda(0.6)),
  'failing_switching': dataclasses.replace(
    THESIS, **_FAILING, early_switching=True, switching=_with_lambda(0.7)
  ),
  'failed_start_cyclic': _without_switching(
    **_FAILED_START, reset_mode='cyclic'
  ),
  'failed_start_soft': _without_switching(
    **_FAILED_START, reset_mode='soft', alpha=0.5
  ),
  'peaks_cyclic': _without_switching(**_PEAKS, reset_mode='cyclic'),
  'failed_start_params': _without_switching(
    **_FAILED_START, reset_mode='soft', alpha=0.0
  ),
}

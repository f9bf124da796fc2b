"""The settings of the thesis' runs; `submission` trains one by its name.

A run that the thesis shows in several figures is here once. Peaks are those of
the first cycle, about 0.00175, plus alter_lr. What isn't named is THESIS':
three equal cycles over twice the step_hint, linear warm-up of 2 %, cosine
decay.

The last three runs are not the thesis'. Two take its comparisons apart: what
the learning rate does alone (cyclic), and what the parameters do alone (alpha =
0, so that a soft reset leaves the moments as they are). The third has peaks so
high that the validation loss of a cycle made to fail rises, and S(t) sees it.

Source: thesis, chapters 2.3 and 3 and appendix A.
"""

from __future__ import annotations

import dataclasses

from ...core.schedules import Cosine, Cycle, LinearWarmup
from ...early_switching import SmoothedLossRule
from ...schedule_params import THESIS, ScheduleParams
from ...shapes.chains import chain_of_lists
from ...shapes.simple import HoldingExponential, HoldingLinear
from ...soft_reset import Cyclic, FullReset, KeptMomentum, Reset, SoftReset

_FULL, _KEPT, _CYCLIC = FullReset(), KeptMomentum(), Cyclic()
_SOFT, _SOFT_PARAMS = SoftReset(alpha=0.5), SoftReset(alpha=0.0)

_ONE_CYCLE = chain_of_lists(
  alter_lr=(0.0,),
  alter_warmup=(0.2,),
  warmups=(LinearWarmup(),),
  decays=(Cosine(),),
)
_PEAKS = chain_of_lists(alter_lr=(0.0, 0.001, -0.001))
_DECAYS = chain_of_lists(
  decays=(Cosine(), HoldingExponential(), HoldingLinear())
)
_WARMUPS = chain_of_lists(alter_warmup=(0.0, 0.18, -0.015))
_FAILING = chain_of_lists(alter_lr=(0.0, 0.02, 0.05))
_DIVERGING = chain_of_lists(alter_lr=(0.0, 1.0, 3.0))
_FAILED_START = chain_of_lists(
  alter_lr=(0.05, 0.0),
  alter_warmup=(0.0, 0.0),
  warmups=(LinearWarmup(),) * 2,
  decays=(Cosine(),) * 2,
)


def _run(
  cycles: tuple[Cycle, ...],
  reset: Reset,
  budget_factor: float = 2.0,
  lam: float = 0.7,
  early_switching: bool = False,
) -> ScheduleParams:
  return dataclasses.replace(
    THESIS,
    cycles=cycles,
    reset=reset,
    budget_factor=budget_factor,
    switching=SmoothedLossRule(lam=lam, eps1=0.01, eps2=0.01, k=9, m=9),
    early_switching=early_switching,
  )


RUNS: dict[str, ScheduleParams] = {
  'one_cycle': _run(_ONE_CYCLE, _SOFT),
  'peaks_full': _run(_PEAKS, _FULL),
  'peaks_kept': _run(_PEAKS, _KEPT),
  'peaks_soft': _run(_PEAKS, _SOFT),
  'decays_full': _run(_DECAYS, _FULL),
  'decays_kept': _run(_DECAYS, _KEPT),
  'decays_soft': _run(_DECAYS, _SOFT),
  'warmups_full': _run(_WARMUPS, _FULL),
  'warmups_kept': _run(_WARMUPS, _KEPT),
  'warmups_soft': _run(_WARMUPS, _SOFT),
  # lambda as in figure 3.6, which shows the losses of this run.
  'failing_full': _run(_FAILING, _FULL, lam=0.6),
  'failing_switching': _run(_FAILING, _FULL, early_switching=True),
  'failed_start_cyclic': _run(_FAILED_START, _CYCLIC, budget_factor=1.0),
  'failed_start_soft': _run(_FAILED_START, _SOFT, budget_factor=1.0),
  'peaks_cyclic': _run(_PEAKS, _CYCLIC),
  'failed_start_params': _run(_FAILED_START, _SOFT_PARAMS, budget_factor=1.0),
  'diverging_switching': _run(_DIVERGING, _FULL, early_switching=True),
}

"""The setting in force before `MUON` had a law for its peak."""

from __future__ import annotations

import dataclasses

from ..core.checks import replaced_at
from ..early_switching import Progress
from ..optimizers.peaks import SpectralPeak
from ..optimizers.schedule_free import ScheduleFreeMuon
from ..schedule_params import MUON, ScheduleParams

# Pages show it, and what was tried beside it. It steps as far for noise as for
# a signal. Beyond 1,500 steps its first cycles now step further than in the
# recorded runs, where all cycles had the factor of the whole plan.
BEFORE_THE_LAW: ScheduleParams = dataclasses.replace(
  replaced_at(MUON, 'cycles.peak', 0.08),
  optimizer=ScheduleFreeMuon(
    coherence=0.0,
    weight_decay=0.02,
    decay_lr_power=0.0,
    rest_share=0.3,
    growth_start=None,
    fall_start=None,
    least_norm=None,
  ),
  relative_peak=SpectralPeak(share=0.08, whole=1500.0),
  switching=Progress(window=0.06),
)

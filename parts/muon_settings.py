"""SOFT_RESET with Muon and an average inside its cycles."""

from __future__ import annotations

import dataclasses

from ..schedule_params import SOFT_RESET
from .muon import ScheduleFreeMuon
from .spectral_peak import SpectralPeak

MUON = dataclasses.replace(
  SOFT_RESET,
  cycles=tuple(
    dataclasses.replace(cycle, peak=0.08) for cycle in SOFT_RESET.cycles
  ),
  optimizer=ScheduleFreeMuon(
    one_minus_beta1=0.3,
    beta2=0.9955159689799007,
    weight_decay=0.08121616522670176,
    r=2.0,
    momentum=0.8,
    adam_share=0.3,
    size='spectral',
  ),
  relative_peak=SpectralPeak(share=0.08),
)

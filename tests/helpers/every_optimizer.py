"""Each optimizer of ours, and averages around some."""

from reset_cycles.optimizers.adamw import Adam, AdamW, RmsW
from reset_cycles.optimizers.at_gradient import AtGradient
from reset_cycles.optimizers.average import EMA, Averaged
from reset_cycles.optimizers.momentum import NadamW, Nesterov
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)

OPTIMIZERS = {
  'adamw': AdamW(grad_clip=0.5),
  'nadamw': NadamW(),
  'nesterov': Nesterov(),
  'rmsw': RmsW(),
  'muon': Muon(),
  'published_muon': Muon(rest=Adam()),
  'coherent_muon': Muon(coherence=1.0),
  'ema': EMA(AdamW(), decay=0.5),
  'average_of_nesterov': Averaged(Nesterov(), r=1.0, keep=0.75),
  'schedule_free_adamw': ScheduleFreeAdamW(),
  'schedule_free_muon': ScheduleFreeMuon(),
  'at_gradient': AtGradient(ScheduleFreeMuon()),
}

"""What the arguments of Schedule-Free's forms are."""

from reset_cycles.optimizers.adamw import Rms, RmsW
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)

NUMBERS = {
  **{'one_minus_beta1': 0.5, 'beta2': 0.75, 'weight_decay': 0.25, 'eps': 0.125},
  **{'grad_clip': 2.0, 'r': 3.0, 'weight_lr_power': 4.0},
}
AVERAGE = {'one_minus_beta1': 0.5, 'r': 3.0, 'weight_lr_power': 4.0}


def test_schedule_free_adamw_is_an_average_of_adam_without_a_first_moment():
  inner = RmsW(beta2=0.75, eps=0.125, weight_decay=0.25, grad_clip=2.0)
  assert ScheduleFreeAdamW(**NUMBERS) == Averaged(inner, **AVERAGE, keep=1.0)


def test_schedule_free_muon_is_an_average_of_muon():
  inner = Muon(
    momentum=0.875,
    growth_start=9.0,
    coherence=0.75,
    weight_decay=0.25,
    decay_lr_power=0.5,
    rest=Rms(beta2=0.75, eps=0.125),
    rest_share=0.625,
    fall_start=7.0,
    grad_clip=2.0,
    least_norm=4.0,
  )
  own = {
    'momentum': 0.875,
    'growth_start': 9.0,
    'fall_start': 7.0,
    'rest_share': 0.625,
    'coherence': 0.75,
    'least_norm': 4.0,
  }
  found = ScheduleFreeMuon(**NUMBERS, **own, decay_lr_power=0.5)
  assert found == Averaged(inner, **AVERAGE, keep=1.0)

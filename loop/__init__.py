"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from ..optimizers.clocked import ClockedState
from .cycles import Cycles
from .events import Event
from .schedule_free import (
  ScheduleFreeState,
  schedule_free_eval_params,
  schedule_free_muon,
)
from .settings import LOOP, MUON_LOOP
from .states import State

__all__ = [
  'LOOP',
  'MUON_LOOP',
  'ClockedState',
  'Cycles',
  'Event',
  'ScheduleFreeState',
  'State',
  'schedule_free_eval_params',
  'schedule_free_muon',
]

"""Soft resets: a self-tuning AlgoPerf submission that chains rate cycles.

Names for a training loop of one's own are imported when they are asked for. The
benchmark imports this package with the submission, and pays nothing for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from .loop import LOOP as LOOP
  from .loop import MUON_LOOP as MUON_LOOP
  from .loop import Cycles as Cycles
  from .loop import Event as Event
  from .loop import State as State
  from .loop import schedule_free_eval_params as schedule_free_eval_params
  from .loop import schedule_free_muon as schedule_free_muon
  from .optimizers.schedule_free import ScheduleFreeMuon as ScheduleFreeMuon
  from .schedule_params import MUON as MUON
  from .schedule_params import SCHEDULE_PARAMS as SCHEDULE_PARAMS
  from .schedule_params import SOFT_RESET as SOFT_RESET
  from .schedule_params import THESIS as THESIS
  from .schedule_params import ScheduleParams as ScheduleParams
  from .submission import make_submission as make_submission

__version__ = '0.1.0'

_SETTINGS = 'MUON', 'SCHEDULE_PARAMS', 'SOFT_RESET', 'ScheduleParams', 'THESIS'
_LOOP = (
  *('Cycles', 'Event', 'LOOP', 'MUON_LOOP', 'State'),
  *('schedule_free_eval_params', 'schedule_free_muon'),
)
_HOMES = {
  **dict.fromkeys(_LOOP, 'loop'),
  **dict.fromkeys(_SETTINGS, 'schedule_params'),
  'ScheduleFreeMuon': 'optimizers.schedule_free',
  'make_submission': 'submission',
}
__all__ = ['__version__'] + list(_HOMES)


def __getattr__(name: str) -> object:
  if name not in _HOMES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'.{_HOMES[name]}', __name__), name)

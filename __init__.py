"""Soft resets: a self-tuning AlgoPerf submission that chains rate cycles.

What a training loop of one's own needs is here, imported when it is asked for:
the benchmark, which imports this package with the submission, pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from .loop import Cycles, Event, State
  from .schedule_params import (
    SCHEDULE_PARAMS,
    SOFT_RESET,
    THESIS,
    ScheduleParams,
  )
  from .submission import make_submission

__version__ = '0.1.0'

_SETTINGS = ('SCHEDULE_PARAMS', 'SOFT_RESET', 'ScheduleParams', 'THESIS')
# Where each name is.
_HOMES = {
  **dict.fromkeys(('Cycles', 'Event', 'State'), 'loop'),
  **dict.fromkeys(_SETTINGS, 'schedule_params'),
  'make_submission': 'submission',
}
__all__ = [
  'SCHEDULE_PARAMS',
  'SOFT_RESET',
  'THESIS',
  'Cycles',
  'Event',
  'ScheduleParams',
  'State',
  '__version__',
  'make_submission',
]


def __getattr__(name: str) -> object:
  if name not in _HOMES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'.{_HOMES[name]}', __name__), name)

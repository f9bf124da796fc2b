"""Soft resets: a self-tuning AlgoPerf submission that chains rate cycles.

What a training loop of one's own needs is here, imported when it is asked for:
the benchmark, which imports this package with the submission, pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from .loop import Cycles as Cycles
  from .loop import CyclesState as CyclesState
  from .loop import NamedSlots as NamedSlots
  from .loop import State as State
  from .schedule_params import SCHEDULE_PARAMS as SCHEDULE_PARAMS
  from .schedule_params import THESIS as THESIS
  from .schedule_params import ScheduleParams as ScheduleParams
  from .settings.hparams import Hparams as Hparams
  from .soft_reset import tau as tau
  from .submission import make_submission as make_submission

__version__ = '0.1.0'

# Where each name is; see the imports above.
_HOMES = {
  'Cycles': 'loop',
  'CyclesState': 'loop',
  'Hparams': 'settings.hparams',
  'NamedSlots': 'loop',
  'SCHEDULE_PARAMS': 'schedule_params',
  'ScheduleParams': 'schedule_params',
  'State': 'loop',
  'THESIS': 'schedule_params',
  'make_submission': 'submission',
  'tau': 'soft_reset',
}
__all__ = (
  'Cycles',
  'CyclesState',
  'Hparams',
  'NamedSlots',
  'SCHEDULE_PARAMS',
  'ScheduleParams',
  'State',
  'THESIS',
  '__version__',
  'make_submission',
  'tau',
)


def __getattr__(name: str) -> object:
  if name not in _HOMES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  value = getattr(importlib.import_module(f'.{_HOMES[name]}', __name__), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})

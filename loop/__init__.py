"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from .cycles import Cycles, CyclesState, State
from .events import Event

__all__ = ['Cycles', 'CyclesState', 'Event', 'State']

"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from .cycles import DEFAULT_CHAIN, Cycles, CyclesState, State
from .events import Event

__all__ = ['DEFAULT_CHAIN', 'Cycles', 'CyclesState', 'Event', 'State']

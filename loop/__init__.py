"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from ..core.optimizers import ClockedState
from .cycles import LOOP, Cycles, State
from .events import Event

__all__ = ['LOOP', 'ClockedState', 'Cycles', 'Event', 'State']

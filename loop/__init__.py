"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from ..core.optimizers import ClockedState
from .cycles import Cycles, State
from .events import Event

__all__ = ['ClockedState', 'Cycles', 'Event', 'State']

"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from ..optimizers.base import ClockedState
from .cycles import LOOP, Cycles
from .events import Event
from .states import State

__all__ = ['LOOP', 'ClockedState', 'Cycles', 'Event', 'State']

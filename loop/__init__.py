"""`Cycles` for a training loop of one's own, and what it takes and returns."""

from ..optimizers.clocked import ClockedState
from .cycles import Cycles
from .events import Event
from .settings import LOOP
from .states import State

__all__ = ['LOOP', 'ClockedState', 'Cycles', 'Event', 'State']

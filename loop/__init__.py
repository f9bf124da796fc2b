"""Cycles, soft resets and early switching in a training loop of one's own."""

from .cycles import Cycles, CyclesState, State
from .named_slots import NamedSlots

__all__ = ['Cycles', 'CyclesState', 'NamedSlots', 'State']

"""Cycles, soft resets and early switching in your own training loop."""

from .cycles import Cycles, CyclesState, State
from .named_slots import NamedSlots

__all__ = ['Cycles', 'CyclesState', 'NamedSlots', 'State']

"""How the cycles of a chain are written: as whole settings, or as lists."""

from .published import register_all
from .setting import CYCLES, read_cycle

__all__ = ['CYCLES', 'read_cycle']

register_all()

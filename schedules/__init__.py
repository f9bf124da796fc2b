"""Cycles, their chain and their clock; warm-ups, decays, weight decay.

Shapes are registered where they stand: once any module of this package is
imported, all of them are known.
"""

from ..settings.discovery import import_all

import_all(__name__, __path__)

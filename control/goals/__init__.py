"""Goals, one per file."""

from ...settings.discovery import import_all
from .goal import GOALS, Goal

__all__ = ['GOALS', 'Goal']

import_all(__name__, __path__)

"""Horizons, one per file."""

from ...settings.discovery import import_all
from .horizon import HORIZONS, Horizon, Timing

__all__ = ['HORIZONS', 'Horizon', 'Timing']

import_all(__name__, __path__)

"""Which weights an evaluation sees: averages, one per file."""

from ..settings.discovery import import_all
from .average import AVERAGES

__all__ = ['AVERAGES']

import_all(__name__, __path__)

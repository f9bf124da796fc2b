"""Which weights an evaluation sees, a file each."""

from ..settings.discovery import import_all
from .average import AVERAGES

__all__ = ['AVERAGES']

import_all(__name__, __path__)

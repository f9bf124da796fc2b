"""The optimizers that take the steps inside a cycle, one per file."""

from ..settings.discovery import import_all
from .inner import INNER, Inner, InnerHparams, Slots

__all__ = ['INNER', 'Inner', 'InnerHparams', 'Slots']

import_all(__name__, __path__)

"""What steps inside a cycle, a file each."""

from ..settings.discovery import import_all
from .inner import INNER, Inner, InnerHparams, Slots

__all__ = ['INNER', 'Inner', 'InnerHparams', 'Slots']

import_all(__name__, __path__)

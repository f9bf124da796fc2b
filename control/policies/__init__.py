"""Policies, one per file."""

from ...settings.discovery import import_all
from .policy import POLICIES, NextCycle, Policy, Situation

__all__ = ['POLICIES', 'NextCycle', 'Policy', 'Situation']

import_all(__name__, __path__)

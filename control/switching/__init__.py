"""Switching rules, one per file."""

from ...settings.discovery import import_all
from .rule import SWITCHING_RULES, Context, SwitchingRule, Verdict

__all__ = ['SWITCHING_RULES', 'Context', 'SwitchingRule', 'Verdict']

import_all(__name__, __path__)

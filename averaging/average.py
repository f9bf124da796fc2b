"""Which weights an evaluation sees: the registry of averages.

What is evaluated is what tau and the rules judge; training goes on from the raw
weights.
"""

from __future__ import annotations

from ..settings.named import Registry

AVERAGES = Registry('average')

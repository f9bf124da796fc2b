"""Shapes of warm-ups, decays and other numbers of a cycle, and chains of them.

A shape is used by writing it: `Cycle(decay=WSD(floor=0.1))`. Its file then comes
along where the settings are handed in.
"""

"""Shapes of warm-ups, decays and other numbers of a cycle, and chains of them.

A shape is written into the settings: `Cycle(decay=WSD(floor=0.1))`. The folder
that is handed in then has the shape's file.
"""

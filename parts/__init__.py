"""What settings may name beyond the core: shapes, optimizers, averages, resets.

A part is used by writing it: `Cycle(decay=WSD(floor=0.1))`. Its file then comes
along where the settings are handed in.
"""

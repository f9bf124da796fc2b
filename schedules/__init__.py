"""Cycles, their chain and their clock; warm-ups, decays, weight decay."""

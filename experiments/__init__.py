"""Experiments: each module is a complete submission with its own schedule."""

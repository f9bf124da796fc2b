"""Measurements and comparisons; not part of the submission."""

"""Measurements and comparisons; no part of what is handed in."""

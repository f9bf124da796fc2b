"""COMPETITION with one piece left out, to measure its contribution."""

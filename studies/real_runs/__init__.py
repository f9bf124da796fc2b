"""Recorded runs of the real benchmark; README.md says what they are."""

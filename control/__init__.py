"""Decisions, pure: when a cycle ends and what follows it."""

"""Chains of settings whose runs on the real benchmark were recorded.

After a full reset, a cycle is a run from scratch. So the result of a chain of
other people's settings, each ended by a switching rule, can be computed from
their recorded runs.
"""

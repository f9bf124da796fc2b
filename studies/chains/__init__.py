"""Chains of settings whose runs on the real benchmark were recorded.

After a full reset a cycle is a run from scratch. So what a chain of other
people's settings would have come to, each left by a switching rule, can be read
off their runs.
"""

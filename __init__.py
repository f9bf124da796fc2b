"""Soft resets: a self-tuning AlgoPerf submission that chains rate cycles."""

"""A small stand-in for the AlgoPerf benchmark: same API, no downloads."""

"""The horizon `time`, compared with the clocks of recorded runs."""

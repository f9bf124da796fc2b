"""The horizon in time, held against the clocks of recorded runs."""

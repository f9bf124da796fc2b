"""Which peak suits the noise of the data and the length of the run."""

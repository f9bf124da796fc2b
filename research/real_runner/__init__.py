"""The submission in the real benchmark's runner, beside published rivals."""

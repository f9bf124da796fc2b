"""The submission in the real benchmark's runner, beside its published rivals."""

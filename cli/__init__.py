"""The console script `soft-reset`, one file per group of commands."""

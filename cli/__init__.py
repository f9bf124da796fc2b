"""The console script `soft-reset`, one file per command."""

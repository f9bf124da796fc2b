"""The console script `soft-reset`, a file per command."""

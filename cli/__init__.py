"""The console script `reset-cycles`, one file per group of commands."""

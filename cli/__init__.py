"""The console script `reset-cycles`; research/ has commands of its own."""

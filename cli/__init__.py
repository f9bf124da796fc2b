"""The console script `reset-cycles`; research/ has the commands of its questions."""

"""What a run ends with whose target, or whose rate, is wrong."""

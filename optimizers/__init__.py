"""The optimizers that step inside cycles, their averages and their peaks."""

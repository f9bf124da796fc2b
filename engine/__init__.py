"""What runs a submission: decisions, resets, train steps, and a run's files."""

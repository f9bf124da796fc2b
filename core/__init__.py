"""What the settings stand on: checks, schedules, plans, clocks, evaluations."""

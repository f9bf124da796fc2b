"""What is concluded from logs, and what a plan promises."""

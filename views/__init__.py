"""A run looked at: its files, pictures, summaries, and what a plan promises."""

"""What holds of the thesis: its runs, its figures and its claims."""

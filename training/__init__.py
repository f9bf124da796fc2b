"""A run inside the benchmark."""

"""A command: its flags, as the benchmark writes them, and how it ends."""

"""The engine of the submission: what the root modules are made of."""

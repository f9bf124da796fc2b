"""Any optax optimizer: what it does, and so what a reset does to its state."""

"""How far runs that reach their target had come, and what tau makes of it."""

"""How a setting is written, read, checked and printed."""

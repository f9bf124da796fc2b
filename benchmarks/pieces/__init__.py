"""COMPETITION with one piece left out, to see what the piece is worth."""

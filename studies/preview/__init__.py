"""A plan before anything is trained: its cycles and its picture."""

"""A plan before anything is trained: its cycles, a step of it, its bound."""

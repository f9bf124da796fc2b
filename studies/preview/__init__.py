"""A plan before anything is trained: its cycles, its picture, its bound."""

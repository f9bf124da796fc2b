"""What steps inside a cycle."""

"""Switching rules on recorded runs; README.md says which runs these are."""

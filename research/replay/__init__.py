"""What switching rules would have done on recorded runs; README.md says on which."""

"""What switching rules would have done on recorded runs."""

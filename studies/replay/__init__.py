"""What switching rules and races would have done on recorded runs."""

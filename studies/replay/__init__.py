"""What rules for leaving cycles would have done on recorded runs."""

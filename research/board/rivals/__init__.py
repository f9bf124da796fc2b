"""Other people's methods as submissions, for comparison with this project's."""

"""Other people's methods as submissions, to be compared with this project's."""

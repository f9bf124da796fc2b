"""One page on one or several runs, to be opened in a browser."""

"""One page about runs, to be looked at in a browser."""

"""Training that goes on with more data: what a soft reset is worth there."""

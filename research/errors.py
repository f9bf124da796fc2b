"""What a study raises for the user to read, beside ValueErrors for bad input."""

from __future__ import annotations


class RunFailed(Exception):
  """Something went wrong after training had begun; the message is for a user."""

"""Which errors are the user's to mend, and how they are shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..studies.errors import RunFailed as RunFailed


class SetupError(Exception):
  """Something in the command line or its files is wrong; no step was taken."""


@contextlib.contextmanager
def reading_logs() -> Iterator[None]:
  """Turns the ValueErrors and OSErrors of logs and pictures into RunFailed."""
  try:
    yield
  except (ValueError, OSError) as e:
    raise RunFailed(str(e)) from e


@contextlib.contextmanager
def setup_phase() -> Iterator[None]:
  """Turns the ValueErrors and OSErrors of a set-up into SetupErrors.

  Only what runs before the first training step belongs inside: there, such an
  error means bad input. In a training step it is a bug and keeps its traceback.
  """
  try:
    yield
  except (ValueError, OSError) as e:
    raise SetupError(str(e)) from e


def one_line(message: str) -> str:
  """The message without its line breaks."""
  return ' '.join(message.split())

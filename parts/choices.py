"""A name among those that are known, and the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(value: object, known: Iterable[str]) -> str:
  """' Did you mean cosine?' if a known name is close to the value, or ''."""
  close = difflib.get_close_matches(str(value), list(known), n=1)
  return f' Did you mean {close[0]}?' if close else ''


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
  """Raises ValueError unless the value is one of the choices."""
  choices = list(choices)
  if isinstance(value, str) and value in choices:
    return
  raise ValueError(
    f'{name}={value!r}: must be one of {", ".join(choices)}.'
    + did_you_mean(value, choices)
  )

"""Writing files without risk to the run."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable

from absl import logging


def write_whole(path: pathlib.Path, content: bytes) -> None:
  """Writes a file so that no reader ever sees only a part of it.

  Args:
    path: file to write; an existing one is replaced.
    content: of the file.
  """
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  try:
    temporary.write_bytes(content)
    os.replace(temporary, path)
  finally:
    temporary.unlink(missing_ok=True)


class Attempts:
  """Calls functions whose failure must not end training.

  Files and loggers only serve those who look at a run. A full disk, a folder
  that has vanished or a logger that raises is worth one warning, not the run.
  """

  def __init__(self):
    self._failed: set[str] = set()

  def __call__(self, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """fn(*args), or None if that raises; warns once for each `what`.

    Args:
      what: what is attempted, for the log: 'writing cycles.csv'.
      fn: what to call.
      *args: its arguments.
    """
    try:
      return fn(*args)
    # A foreign logger may raise anything, and nothing that can go wrong in here
    # is worth the run.
    except Exception as error:  # noqa: BLE001
      if what not in self._failed:
        self._failed.add(what)
        logging.warning(
          '%s failed: %s: %s. The run goes on; this is logged only once.',
          what[:1].upper() + what[1:],
          type(error).__name__,
          error,
        )
      return None

"""Files that exist as a whole or not at all."""

from __future__ import annotations

import os
import pathlib
import re

# To write a file: each failure means that another process began to write it.
_ATTEMPTS = 9


def replace_file(path: pathlib.Path, content: bytes) -> None:
  """Writes or replaces a file; no reader ever sees only a part of it.

  The temporary file lies in the same folder, since a rename is atomic only
  within one file system, and is this process' own. What a killed process has
  left of such a write is removed. A process that is still writing then writes
  anew.

  Raises:
    OSError: if that fails, on a full disk say; what was there stays.
  """
  leftover = re.compile(rf'\.{re.escape(path.name)}\.\d+\.tmp')
  for other in path.parent.iterdir():
    if leftover.fullmatch(other.name):
      other.unlink(missing_ok=True)
  temporary = path.with_name(f'.{path.name}.{os.getpid()}.tmp')
  for attempt in range(1, _ATTEMPTS + 1):
    try:
      temporary.write_bytes(content)
      os.replace(temporary, path)
      break
    except FileNotFoundError:  # removed by a process that writes this file
      if attempt == _ATTEMPTS:
        raise
    finally:
      temporary.unlink(missing_ok=True)

"""What a submission is: its settings.

`reset-cycles export` runs this file in a process of its own, which imports what was
exported and cannot import the project.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def described(params: Any) -> str:
  """Settings as text, by the code of the package that they are from."""
  package = type(params).__module__.rpartition('.')[0]
  plain = importlib.import_module(f'{package}.core.records').as_plain(params)
  # A function is written by its name: its repr is an address.
  return json.dumps(plain, default=lambda value: getattr(value, '__name__', ''))


def main(hidden: str, module: str, folder: str, *path: str) -> None:
  """Prints the description of a module, one package being out of sight."""
  sys.path = [folder, *sys.path, *path]
  sys.modules[hidden] = None  # type: ignore[assignment]  # as if it was missing
  (params,) = importlib.import_module(module).init_optimizer_state.args
  print(described(params))


if __name__ == '__main__':
  main(*sys.argv[1:])

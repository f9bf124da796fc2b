"""The settings of a submission, as text.

`reset-cycles export` runs this file in a process of its own. The process
imports the exported submission, and cannot import the project.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def settings_text(settings: Any) -> str:
  """Settings as text, by the code of the package that defines them."""
  package = type(settings).__module__.rpartition('.')[0]
  plain = importlib.import_module(f'{package}.engine.records').as_plain(
    settings
  )
  # A function is written by its name: its repr is an address.
  return json.dumps(plain, default=lambda value: getattr(value, '__name__', ''))


def main(hidden: str, module: str, folder: str, *path: str) -> None:
  """Prints the description of a module while one package cannot be imported."""
  sys.path = [folder, *sys.path, *path]
  sys.modules[hidden] = None  # type: ignore[assignment]  # as if it was missing
  settings = importlib.import_module(module).init_optimizer_state.settings
  print(settings_text(settings))


if __name__ == '__main__':
  main(*sys.argv[1:])

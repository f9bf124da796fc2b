"""Finding parts: each file of a folder registers what it defines."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable


def import_all(package: str, path: Iterable[str]) -> None:
  """Imports every module of a package, so that its parts are registered.

  A new part is one new file: no list has to name it.

  Args:
    package: the package's `__name__`, whatever it was imported as.
    path: its `__path__`.
  """
  for module in pkgutil.iter_modules(path):
    importlib.import_module(f'{package}.{module.name}')

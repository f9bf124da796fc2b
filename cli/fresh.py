"""What a submission is: its settings, and the rates of its first steps.

`soft-reset export` runs this file in a process of its own, which imports what was
exported and cannot import the project.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def described(params: Any) -> tuple[str, list[float]]:
  """Settings as text and rates, by the code of the package that they are from."""
  import numpy as np

  package = type(params).__module__.rpartition('.')[0]
  plain = importlib.import_module(f'{package}.core.records').as_plain(params)
  schedules = importlib.import_module(f'{package}.core.schedules')
  chain = schedules.jax_lr_schedule(1000, params.cycles, params.budget_factor)
  rates = schedules.planned_rates(chain, np.arange(100))
  # A function is written by its name: its repr is an address.
  text = json.dumps(plain, default=lambda value: getattr(value, '__name__', ''))
  return text, rates.tolist()


def main(hidden: str, module: str, folder: str, *path: str) -> None:
  """Prints the description of a module, one package being out of sight."""
  sys.path = [folder, *sys.path, *path]
  sys.modules[hidden] = None  # type: ignore[assignment]  # as if it was missing
  (params,) = importlib.import_module(module).init_optimizer_state.args
  print(json.dumps(described(params)))


if __name__ == '__main__':
  main(*sys.argv[1:])

"""Fails if modules of the package import each other in a circle.

An import for types only counts, and so does one inside a function.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import grimp


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
  """Circles that share no module, each module of which imports the next."""
  remaining = dict(imports)
  found: list[list[str]] = []
  while True:
    try:
      TopologicalSorter(remaining).prepare()
      return found
    except CycleError as e:
      found.append(e.args[1][::-1])
      for module in found[-1]:
        remaining.pop(module, None)


if __name__ == '__main__':
  graph = grimp.build_graph(
    'reset_cycles', cache_dir=None, exclude_type_checking_imports=False
  )
  found = circles(
    {
      module: graph.find_modules_directly_imported_by(module)
      for module in sorted(graph.modules)
    }
  )
  for circle in found:
    print('A circle of imports:', ' → '.join(circle), file=sys.stderr)
  sys.exit(bool(found))

"""What a reset does to a leaf of a model, and the answer by names of fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# A reset blends iterates with fresh values, as it blends the parameters. It
# shrinks moments, which begin at 0. It begins counts anew only where it is
# full. It never touches what is kept. Batch statistics are the model's.
ITERATE, STATISTIC, MOMENT, COUNT, KEPT = range(5)
RoleOf = Callable[[Any], int]  # of the key path of a leaf


def roles_by_field(moments: Sequence[str], iterates: Sequence[str]) -> RoleOf:
  """The role of a leaf, by the outermost name on its path that is listed.

  Args:
    moments, iterates: names of fields of NamedTuples. A leaf under no such
      field is a count.
  """

  def role_of(path: Any) -> int:
    for name in (getattr(key, 'name', '') for key in path):
      if name in iterates:
        return ITERATE
      if name in moments:
        return MOMENT
    return COUNT

  return role_of

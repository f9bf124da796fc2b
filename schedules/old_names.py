"""Names of shapes in files of older runs.

There 'exponential' and 'linear' are the thesis' decays, which hold the peak
first, and 'geometric' is what 'exponential' is now.
"""

from __future__ import annotations

from collections.abc import Mapping

_DECAYS = {
  'exponential': 'holding_exponential',
  'linear': 'holding_linear',
  'geometric': 'exponential',
}


def translated(decay: object) -> object:
  """A decay, or weight decay, of an older file by its name of today.

  Args:
    decay: as it is in the file: a name, or an object with a name and
      parameters, perhaps with shapes among them. Anything else is returned as
      it is, for whoever reads it to refuse.
  """
  if isinstance(decay, str):
    return _DECAYS.get(decay, decay)
  if isinstance(decay, (list, tuple)):
    return [translated(shape) for shape in decay]
  if isinstance(decay, Mapping):
    return {
      key: translated(value) if key in ('name', 'shapes') else value
      for key, value in decay.items()
    }
  return decay

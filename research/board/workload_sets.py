"""The selection set, on which settings are chosen, and the held-out set.

Fixed before anything was trained on a workload that was new on that day.
Nothing is ever chosen on the held-out set: it is trained once, with the
settings that were chosen, and whatever is changed after that is said on the
page. Each set has every kind of the benchmark's workloads, in the same order: a
network with batch normalisation, a patch Transformer, a click model, a U-Net,
speech (recurrent in one set, attention in the other), graphs, translation, a
language model. Models that stand in both sets differ as the benchmark's
variants do.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.checks import did_you_mean
from ...mini_algoperf.workloads import WORKLOADS
from ...mini_algoperf.workloads.from_file import is_file

SELECTION = (
  *('digits', 'patches_glu', 'clicks', 'photos_tanh'),
  *('waves', 'molecules', 'translation', 'text'),
)
HELD_OUT = (
  *('residual', 'patches', 'clicks_embed_init', 'photos'),
  *('frames', 'molecules_wide', 'translation_glu', 'chains'),
)
SETS = {'held_out': HELD_OUT, 'selection': SELECTION}


def workloads_of(names: Sequence[str]) -> list[str]:
  """The names, with the workloads of a set in the place of its name.

  Raises:
    ValueError: for a name that is neither a set, a workload nor a file's class.
  """
  known = [*SETS, *WORKLOADS]
  for name in names:
    if name not in known and not is_file(name):
      raise ValueError(
        f'workload {name!r} is unknown; known are {", ".join(known)}, and '
        'file.py:ClassName for your own.' + did_you_mean(name, known)
      )
  return [own for name in names for own in SETS.get(name, (name,))]

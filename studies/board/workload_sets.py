"""Which workloads settings are chosen on, and which they are then shown on.

Fixed before anything was trained on a workload that was new on that day. Nothing
is ever chosen on those for showing: they are trained once, with the settings in
force, and whatever is changed after that is said on the page. Each half has every
kind of the benchmark's workloads, in the same order: a network with batch
normalisation, a patch Transformer, a click model, a U-Net, speech (recurrent in
one half, attention in the other), graphs, translation, a language model. Models
that stand in both halves differ as the benchmark's variants do.
"""

from __future__ import annotations

from collections.abc import Sequence

CHOOSING = (
  *('digits', 'patches_glu', 'clicks', 'photos_tanh'),
  *('waves', 'molecules', 'translation', 'text'),
)
SHOWING = (
  *('residual', 'patches', 'clicks_embed_init', 'photos'),
  *('frames', 'molecules_wide', 'translation_glu', 'chains'),
)
HALVES = {'choosing': CHOOSING, 'showing': SHOWING}


def workloads_of(names: Sequence[str]) -> list[str]:
  """The names, with those of its workloads in the place of a half's."""
  return [own for name in names for own in HALVES.get(name, (name,))]

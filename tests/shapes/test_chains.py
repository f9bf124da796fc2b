"""A chain as the thesis writes it."""

import pytest

from reset_cycles.core.schedules import Constant, Cosine, Cycle, LinearWarmup
from reset_cycles.shapes.chains import chain_of_lists


def test_the_lists_of_the_thesis():
  cycles = chain_of_lists(
    alter_lr=(0.0, 0.001),
    alter_warmup=(0.0, 0.18),
    warmups=(LinearWarmup(), LinearWarmup(0.5)),
    decays=(Cosine(), Constant()),
  )
  assert cycles == (
    Cycle(),
    # .02 + .18 in decimals
    Cycle(
      peak=0.0017486387539278373 + 0.001,
      warmup_factor=0.2,
      warmup=LinearWarmup(0.5),
      decay=Constant(),
    ),
  )
  with pytest.raises(ValueError, match='one entry per cycle.* have 2, 3, 3, 3'):
    chain_of_lists(alter_lr=(0.0, 0.0))
  with pytest.raises(ValueError, match='^peak=-'):
    chain_of_lists(alter_lr=(0.0, 0.0, -1.0))

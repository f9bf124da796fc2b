"""The parts that docs/extending.md adds, each by one class in one file."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import documents, runs
from reset_cycles.core.cycle import Cycle
from reset_cycles.schedule_params import ScheduleParams

PAGE = documents.ROOT / 'docs' / 'extending.md'
# 12 steps in cycles of 4. The second is left at its third evaluation, the last one
# is followed by further ones at half of the rate.
METRICS = {2: 0.5, 5: 0.4, 6: 0.3, 7: 0.2, 10: 0.6, 14: 0.7}
PEAK = 0.0017486387539278373


@pytest.fixture(scope='module')
def names():
  """What the blocks of the page define."""
  found = {'Cycle': Cycle, 'ScheduleParams': ScheduleParams}
  for block in documents.blocks(PAGE):
    exec(compile(block.text, PAGE.name, 'exec'), found)
  return found


def test_they_run(names, folder):
  driver = runs.newly_set_up(
    names['params'], evaluations={s: (1.0, m) for s, m in METRICS.items()}
  )
  start = runs.trained_params(driver)['kernel']
  assert not driver.run(until=16)
  end = runs.trained_params(driver)['kernel']
  assert np.isfinite(end).all()
  assert not np.array_equal(end, start)
  assert runs.column(folder, 'waited', event='evaluation') == [
    *('0', '0', '1', '2', '0', '0')
  ]
  assert runs.column(folder, 'reason', event='switch') == ['no progress']
  assert runs.column(folder, 'scale', event='cycle_start') == [
    *('1.0', '1.0', '1.0', '0.5')
  ]
  rates = dict(
    zip(
      runs.column(folder, 'global_step'), runs.column(folder, 'learning_rate')
    )
  )
  # .25 of the peak from the middle of a cycle on.
  np.testing.assert_allclose(float(rates['2']), 0.25 * PEAK, rtol=1e-6)

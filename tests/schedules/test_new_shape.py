"""A new shape is one function: all that follows from its registration."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from curves import assert_close, read
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules import lr_schedule
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase
from reset_cycles.schedules.weight_decay import WEIGHT_DECAYS
from reset_cycles.settings.kinds import BelowOne, CountTo
from reset_cycles.studies.preview import gallery, shape_table


@pytest.fixture(autouse=True)
def terraces():
  """As a file of its own would have it; it goes with the test."""

  @DECAYS.register
  def terraces(phase, *, levels: CountTo(9) = 4, floor: BelowOne = 0.0):
    """Equal stairs from 1 down to just above the floor."""
    length = phase.steps / levels
    return lambda count: 1 - (1 - floor) * (count // length) / levels

  yield
  del DECAYS._parts['terraces']


SHAPE = {'name': 'terraces', 'levels': 2, 'floor': 0.5}


def test_it_can_be_made():
  schedule = DECAYS.make(DECAYS.read('x', 'terraces'), Phase(100))
  rates = read(schedule, np.asarray([0, 24, 25, 75]))
  assert_close(rates, [1, 1, 0.75, 0.25], 1.0)
  chain = {'name': 'chained', 'shapes': [SHAPE, 'constant']}
  schedule = DECAYS.make(DECAYS.read('x', chain), Phase(100))
  assert_close(read(schedule, np.asarray([0, 50])), [1, 0.75], 1.0)


def test_it_can_be_a_cycle_and_a_weight_decay():
  params = ScheduleParams(
    warmups=('none',) * 3,
    decays=('cosine', 'terraces', SHAPE),
    weight_decays=(SHAPE, 'ratio', 'constant'),
    budget_factor=3.0,
  )
  cycle = lr_schedule.lay_out(100, params)[2].rate
  peak = params.hparams.learning_rate
  rates = read(cycle, np.asarray([0, 49, 50]))
  assert_close(rates, [peak, peak, 0.75 * peak], peak)
  assert ScheduleParams.from_json(params.to_json()) == params
  assert 'terraces' in WEIGHT_DECAYS


@pytest.mark.parametrize(
  ('shape', 'message'),
  (
    ('terrace', "^x='terrace': x must be one of .* Did you mean terraces?"),
    (
      {'name': 'terraces', 'levels': 10},
      '^x.levels=10: x.levels must be a whole number from 1 to 9.$',
    ),
    (
      {'name': 'terraces', 'level': 2},
      '^x: terraces has no parameter level; it has floor, levels. Did you mean',
    ),
  ),
)
def test_errors_know_it(shape, message):
  with pytest.raises(ValueError, match=message):
    DECAYS.read('x', shape)


def test_the_table_and_the_picture_have_it():
  text = shape_table.as_markdown()
  assert '### `terraces`\n\nEqual stairs from 1 down to' in text
  assert '| `levels` | `4` | a whole number from 1 to 9 |' in text
  figure = Figure()
  gallery.draw_gallery(figure)
  assert 'terraces' in [axes.get_title(loc='left') for axes in figure.axes]

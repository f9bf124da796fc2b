"""The picture of a plan."""

from __future__ import annotations

import dataclasses

import numpy as np
from matplotlib.figure import Figure

from reset_cycles.experiments.settings import RUNS
from reset_cycles.studies.preview import picture

PLAN = RUNS['peaks_soft']


def draw(params):
  figure = Figure()
  picture.draw_plan(figure, 150, params, 'A plan')
  return figure


def starts(axes):
  return [line.get_xdata()[0] for line in axes.lines[1:]]


def test_the_learning_rate_is_alone():
  figure = draw(PLAN)
  (axes,) = figure.axes
  assert tuple(figure.get_size_inches()) == (7, 3)
  assert axes.get_title(loc='left') == 'A plan'
  assert axes.get_xlabel() == 'global step'
  assert axes.get_ylabel() == 'learning rate'


def test_a_scheduled_weight_decay_is_below():
  params = dataclasses.replace(
    PLAN,
    hparams=dataclasses.replace(PLAN.hparams, weight_decay=0.25),
    alter_weight_decay=(0.0, 0.5, 0.25),
  )
  figure = draw(params)
  above, below = figure.axes
  assert tuple(figure.get_size_inches()) == (7, 6)
  assert above.get_title(loc='left') == 'A plan'
  assert (above.get_xlabel(), below.get_xlabel()) == ('', 'global step')
  assert above.get_ylabel() == 'learning rate'
  assert below.get_ylabel() == 'weight decay'
  assert below.get_title(loc='left') == ''
  assert starts(above) == starts(below) == [100, 200]
  steps, decays = below.lines[0].get_data()
  assert np.array_equal(steps, np.arange(300))
  assert np.array_equal(decays, np.repeat([0.25, 0.75, 0.5], 100))
  assert above.get_xlim() == below.get_xlim() == (0, 300)

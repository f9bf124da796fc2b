"""The picture of a plan."""

from __future__ import annotations

import builtins
import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from reset_cycles.schedule_params import COMPETITION, THESIS
from reset_cycles.training import picture


def draw(params):
  figure = Figure()
  picture.draw_plan(figure, 300, params, 'a title')
  return figure.axes


def test_the_learning_rate_and_its_boundaries():
  (axes,) = draw(THESIS)
  curve, *boundaries = axes.lines
  steps, rates = curve.get_data()
  assert (steps[0], steps[-1], len(steps)) == (0, 599, 600)
  assert [line.get_xdata()[0] for line in boundaries] == [200, 400]
  peak = THESIS.hparams.learning_rate
  assert steps[np.argmax(rates)] == 4  # the warm-up is 2 % of 200 steps
  assert rates.max() == pytest.approx(peak)
  assert (axes.get_title('left'), axes.get_ylabel()) == (
    'a title',
    'learning rate',
  )
  assert axes.get_xlabel() == 'global step'


def test_rates_that_are_far_apart_have_a_log_axis():
  (axes,) = draw(COMPETITION)
  assert axes.get_yscale() == 'log'
  # The lowest of the list's peaks, on 450 steps; it is seen.
  assert 0 < axes.get_ylim()[0] < 0.00025
  assert draw(THESIS)[0].get_ylim()[0] == 0


@pytest.mark.parametrize(
  ('params', 'title'),
  [
    (THESIS, 'Planned learning rate; dashed: a new cycle starts'),
    (
      COMPETITION,
      'Settings in order, of which race chooses; dashed: the next one',
    ),
  ],
)
def test_the_title_says_whether_it_is_a_plan(
  params, title, monkeypatch, tmp_path
):
  titles = []
  monkeypatch.setattr(
    picture, 'draw_plan', lambda *arguments: titles.append(arguments[-1])
  )
  picture.draw_schedule(tmp_path, 300, params)
  assert titles == [title]


def test_a_scheduled_weight_decay_has_a_panel_of_its_own():
  params = dataclasses.replace(
    THESIS,
    weight_decays=('constant', 'cosine', 'ratio'),
    alter_weight_decay=(0.5, 0.0, 0.0),
  )
  above, below = draw(params)
  assert (above.get_title('left'), below.get_title('left')) == ('a title', '')
  assert (above.get_ylabel(), below.get_ylabel()) == (
    'learning rate',
    'weight decay',
  )
  assert (above.get_xlabel(), below.get_xlabel()) == ('', 'global step')
  steps, decays = below.lines[0].get_data()
  assert len(steps) == 600
  base = THESIS.hparams.weight_decay
  np.testing.assert_allclose(decays[:200], base + 0.5, rtol=1e-6)
  np.testing.assert_allclose(decays[[200, 300]], [base, base / 2], rtol=1e-6)
  _, rates = above.lines[0].get_data()
  peak = THESIS.hparams.learning_rate
  np.testing.assert_allclose(
    decays[400:], base * rates[400:] / peak, rtol=1e-6, atol=1e-9
  )


def test_the_file(tmp_path):
  picture.draw_schedule(tmp_path, 300, THESIS)
  written = (tmp_path / picture.SCHEDULE_PICTURE).read_bytes()
  assert written[:8] == b'\x89PNG\r\n\x1a\n'


def test_no_picture_without_matplotlib(tmp_path, monkeypatch):
  real_import = builtins.__import__

  def without(name, *args):
    if name.startswith('matplotlib'):
      raise ImportError(name)
    return real_import(name, *args)

  monkeypatch.setattr(builtins, '__import__', without)
  picture.draw_schedule(tmp_path, 300, THESIS)
  assert list(tmp_path.iterdir()) == []

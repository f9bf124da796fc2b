"""The picture of all shapes."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.warmups import WARMUPS
from reset_cycles.studies.preview import gallery


def test_every_shape_has_its_axes():
  figure = Figure()
  gallery.draw_gallery(figure)
  drawn = [axes for axes in figure.axes if axes.axison]
  titles = [axes.get_title(loc='left') for axes in drawn]
  warmups = [n for n in WARMUPS if n != 'none']
  expected = [f'{name}, warm-up' for name in warmups]
  assert titles == expected + list(DECAYS)
  assert all(axes.get_lines() for axes in drawn)


def test_a_shape_is_drawn_over_its_phase():
  axes = Figure().subplots()
  variants = ({}, {'start': 0.5, 'end': 1.0})
  gallery.draw_shape(axes, 'polynomial', variants, DECAYS)
  falling, rising = axes.get_lines()
  share = falling.get_xdata()
  assert (share[0], share[-1]) == (0.0, 1.0)
  np.testing.assert_allclose(falling.get_ydata(), 1 - share, atol=1e-6)
  np.testing.assert_allclose(rising.get_ydata(), (1 + share) / 2, atol=1e-6)
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels == [
    'start 1.0; end 0.0; power 1.0; share\n1.0; no cycle',
    'start 0.5; end 1.0',
  ]
  assert falling.get_linestyle() != rising.get_linestyle()


@pytest.mark.parametrize(
  ('parameters', 'label'),
  (
    ({'shapes': ['cosine', 'wsd'], 'at': [0.5]}, 'cosine, wsd; at 0.5'),
    ({'share': 0.25, 'staircase': True}, 'share 0.25; staircase'),
    ({'function': lambda step: 0.5}, 'a Python function'),
  ),
)
def test_labels(parameters, label):
  axes = Figure().subplots()
  name = 'sequential' if 'shapes' in parameters else 'exponential'
  name = 'multiplicative' if 'function' in parameters else name
  gallery.draw_shape(axes, name, (parameters,), DECAYS)
  assert axes.get_legend().get_texts()[0].get_text() == label


def test_the_picture_is_saved(tmp_path):
  path = gallery.save_gallery(tmp_path / 'schedules.png')
  assert path.read_bytes().startswith(b'\x89PNG')

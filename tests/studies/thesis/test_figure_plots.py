"""What is drawn of the runs behind a figure of the thesis."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from curves_of_runs import run_table
from reset_cycles.experiments import thesis
from reset_cycles.studies.thesis import figure_plots

FULL = [
  run_table([0.1, y], [0.2, y], taus=[1.0], target=0.8) for y in (0.5, 0.6, 0.7)
]
SOFT = [
  run_table([0.1, y], [0.6, y], taus=[y / 2], target=0.8)
  for y in (0.5, 0.6, 0.7)
]


def draw(name, runs, x_axis='steps'):
  return figure_plots.draw_figure(name, thesis.FIGURES[name], runs, x_axis)


def labelled(axes):
  return {
    line.get_label(): line
    for line in axes.get_lines()
    if not line.get_label().startswith('_')
  }


def test_full_and_soft_resets_over_seeds():
  picture = draw('fig3.8a', {'peaks_full': FULL, 'peaks_soft': SOFT})
  assert picture._suptitle.get_text() == (
    'fig3.8a: three peaks: full and soft resets '
    '(molecules, 3 seeds: median and quartiles)'
  )
  schedule, metric = picture.axes
  lines = labelled(metric)
  assert list(lines) == ['full reset', 'soft reset', 'target 0.8']
  assert lines['full reset'].get_color() == '#0072B2'
  assert lines['soft reset'].get_color() == '#009E73'
  np.testing.assert_allclose(
    lines['soft reset'].get_xydata(),
    [[10, 0.1], [20, 0.6], [30, 0.6], [40, 0.6]],
  )
  # Two bands of quartiles.
  assert len(metric.collections) == 2
  assert [text.get_text() for text in metric.texts] == [
    'τ = 0.3\n(0.25 to 0.35)'
  ]
  assert [text.xy[0] for text in metric.texts] == [20]
  for axes in (schedule, metric):
    resets = [x for x in axes.get_lines() if x.get_linestyle() == '-.']
    assert [x.get_xdata() for x in resets] == [[20.0, 20.0]]
    assert axes.get_xlabel() == 'global step'
  assert schedule.get_ylabel() == 'learning rate'
  assert metric.get_ylabel() == 'mean average precision (validation)'
  # Both runs have one schedule, which is drawn once.
  np.testing.assert_array_equal(
    schedule.get_lines()[0].get_ydata(), FULL[0].rates
  )


def test_kept_momentum_has_a_style_of_its_own():
  picture = draw('fig3.4a', {'peaks_full': FULL, 'peaks_kept': SOFT})
  lines = labelled(picture.axes[1])
  assert lines['kept momentum'].get_color() == '#D55E00'
  styles = {str(style.line) for style in figure_plots.STYLES.values()}
  colors = {style.color for style in figure_plots.STYLES.values()}
  assert len(styles) == len(colors) == 4
  # No soft reset is there: tau is that of the first run.
  assert [text.get_text() for text in picture.axes[1].texts] == ['τ = 1']


def test_over_time_every_seed_has_a_line():
  picture = draw('fig3.1', {'peaks_full': FULL, 'peaks_soft': SOFT}, 'time')
  assert picture._suptitle.get_text().endswith('3 seeds: a line each)')
  _, metric = picture.axes
  assert metric.get_xlabel() == 'seconds of submission time'
  assert len(metric.get_lines()) == 3 + 3 + 1
  assert list(labelled(metric)) == ['full reset', 'soft reset', 'target 0.8']
  assert not metric.texts


def test_a_schedule_alone_has_its_phases_shaded():
  picture = draw('fig3.3a', {'peaks_full': FULL[:1]})
  [axes] = picture.axes
  assert picture._suptitle.get_text().endswith('(molecules, 1 seed)')
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels == ['warm-up', 'decay']
  spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in axes.patches)
  assert spans == [(0, 2), (2, 20), (20, 22), (22, 40)]


@pytest.mark.parametrize(
  ('name', 'label', 'values'),
  [
    ('fig3.6a', 'validation loss L', [0.9, 0.5, 0.8, 0.5]),
    ('fig3.6b', 'smoothed validation loss l', [0.9, 0.5, 0.8, 0.5]),
    ('fig3.6c', "change of l per evaluation, l'", [0.0, -0.4, 0.3, -0.3]),
  ],
)
def test_losses(name, label, values):
  _, axes = draw(name, {'failing_full': FULL[:1]}).axes
  assert axes.get_ylabel() == label
  np.testing.assert_allclose(labelled(axes)['full reset'].get_ydata(), values)


def test_every_early_switch_is_marked():
  runs = [
    FULL[0]._replace(switches=[(20, 'loss rises')]),
    FULL[1]._replace(switches=[(10, 'loss rises'), (30, 'loss rises')]),
  ]
  _, axes = draw('fig3.7', {'failing_switching': runs}).axes
  marks = labelled(axes)['early switch']
  assert list(marks.get_xdata()) == [20, 10, 30]


@pytest.mark.parametrize('name', thesis.FIGURES)
def test_every_figure_can_be_drawn(name):
  figure = thesis.FIGURES[name]
  picture = draw(name, {run: FULL[:2] for run in figure.runs}, figure.x_axis)
  FigureCanvasAgg(picture).draw()

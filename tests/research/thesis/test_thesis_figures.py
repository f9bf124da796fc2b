"""What is drawn of the runs behind a figure of the thesis."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.curves_of_runs import run_table
from reset_cycles.research.thesis import figures
from reset_cycles.research.thesis.premises import PREMISES
from reset_cycles.research.thesis.registry import FIGURES

STEPS = np.array([1, 2, 3])


def test_median_and_quartiles_of_common_points():
  curves = [(STEPS, np.full(3, value)) for value in (1.0, 2.0, 3.0, 4.0, 10.0)]
  shown = figures.band(curves)
  assert shown.x.tolist() == [1, 2, 3]
  assert shown.median.tolist() == [3.0] * 3
  assert shown.lower.tolist() == [2.0] * 3
  assert shown.upper.tolist() == [4.0] * 3


def panel(tables, x_axis):
  runs = {'peaks_soft': tables}
  shown = figures.Panel(Figure().subplots(), runs, x_axis)
  shown.draw_metric()
  return shown.axes


def test_resets_over_seeds():
  tables = [
    run_table([0.1, 0.2], [0.3], [0.4], taus=[0.5, 0.25]),
    run_table([0.1, 0.2, 0.2], [0.3], taus=[0.7]),
  ]
  texts = panel(tables, 'steps').texts
  assert [(text.xy[0], text.get_text()) for text in texts] == [
    (25.0, 'τ = 0.6\n(0.5 to 0.7)'),
    (30.0, 'τ = 0.25'),
  ]


def test_over_time_each_seed_is_a_curve_of_its_own():
  tables = [run_table([0.1, 0.2], [0.3], taus=[0.5]) for _ in range(2)]
  tables[1] = tables[1]._replace(eval_times=np.array([1.0, 2.0, 4.0]))
  tables[1] = tables[1]._replace(seed=2)
  axes = panel(tables, 'time')
  first, second, *_ = axes.get_lines()
  np.testing.assert_allclose(first.get_xdata(), [0.1, 0.2, 0.3])
  assert second.get_xdata().tolist() == [1.0, 2.0, 4.0]
  assert second.get_ydata().tolist() == [0.1, 0.2, 0.3]
  # The slower seed stands for both: its line is thick, and its tau is written.
  assert first.get_linewidth() < 1 < second.get_linewidth()
  assert second.get_label() == 'soft reset'
  assert [text.xy[0] for text in axes.texts] == [2.0]
  [both] = [
    x for x in panel(tables, 'steps').get_lines() if len(x.get_xdata()) == 3
  ]
  assert both.get_xdata().tolist() == [10, 20, 30]
  [text] = panel(tables[1:], 'time').texts
  assert (text.xy[0], text.get_text()) == (2.0, 'τ = 0.5')


FULL = [
  run_table([0.1, y], [0.2, y], taus=[1.0], target=0.8) for y in (0.5, 0.6, 0.7)
]
SOFT = [
  run_table([0.1, y], [0.6, y], taus=[y / 2], target=0.8)
  for y in (0.5, 0.6, 0.7)
]


def draw(name, runs):
  return figures.draw_figure(name, FIGURES[name], runs)


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


def test_a_schedule_alone_has_its_phases_shaded():
  picture = draw('fig3.3a', {'peaks_full': FULL[:1]})
  [axes] = picture.axes
  assert picture._suptitle.get_text() == (
    'fig3.3a: three peaks: learning rate (molecules)'
  )
  labels = [text.get_text() for text in axes.get_legend().get_texts()]
  assert labels == ['warm-up', 'decay']
  spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in axes.patches)
  assert spans == [(0, 2), (2, 20), (20, 22), (22, 40)]


def test_a_figure_over_time_can_be_drawn():
  runs = {'peaks_full': FULL[:2], 'peaks_soft': SOFT[:2]}
  picture = draw('fig3.1', runs)
  assert picture._suptitle.get_text().endswith(
    '(molecules, 2 seeds: a line each, seed 1 thick)'
  )
  _, metric = picture.axes
  assert metric.get_xlabel() == 'seconds of submission time'


def test_seeds_that_switch_at_different_steps_are_lines_of_their_own():
  early = run_table([0.1, 0.2], [0.0], taus=[1.0])._replace(seed=1)
  late = run_table([0.1, 0.2], [0.0, 0.0], [0.3], taus=[1.0, 1.0])
  late = late._replace(seed=2, switches=[(40, 'loss rises')])
  picture = draw('fig3.7', {'diverging_switching': [early, late]})
  title, _ = picture._suptitle.get_text().split('\n')
  assert title.endswith('2 seeds: a line each, seed 2 thick)')
  schedule, metric = picture.axes
  # Nothing is called a median; of the plans one is shown.
  assert not metric.collections
  rates = [x for x in schedule.get_lines() if x.get_linestyle() != '-.']
  assert [x.get_xdata().size for x in rates] == [late.last_step]


def test_cyclic_training_and_the_target_do_not_look_alike():
  picture = draw('fig3.10', {'failed_start_cyclic': FULL})
  lines = labelled(picture.axes[1])
  cyclic, target = lines['no reset (cyclic)'], lines['target 0.8']
  assert cyclic.get_color() != target.get_color()
  assert cyclic.get_linewidth() > 1.5 * target.get_linewidth()


@pytest.mark.parametrize(
  ('later', 'said'),
  [
    (0.05, 'As in the thesis (10 of 10 seeds): '),
    (0.5, 'Unlike the thesis (0 of 10 seeds): '),
  ],
)
def test_the_title_says_whether_the_figure_shows_what_the_thesis_shows(
  later, said
):
  tables = [
    run_table([0.0, 0.9], [0.0, later], [0.0, 0.04])._replace(seed=seed)
    for seed in range(1, 11)
  ]
  picture = draw('fig3.5', {'failing_full': tables})
  _, line = picture._suptitle.get_text().split('\n')
  assert line == said + PREMISES['fig3.5'].sentence
  picture = draw('fig3.5', {'failing_full': tables[:9]})
  _, line = picture._suptitle.get_text().split('\n')
  said = 'In the thesis (seeds here: 9, no verdict): '
  assert line == said + PREMISES['fig3.5'].sentence

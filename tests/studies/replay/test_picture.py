"""The picture of a replay."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from recorded import FALLING, make_run
from reset_cycles.studies.replay import picture, table

RUNS = [
  make_run([10, 50, 100], [0.2, 0.8, 1.0], trial=1),
  make_run([10, 50, 100], [0.2, 0.97, 0.5], trial=2),
  make_run([10, 50, 100], [math.nan, 0.3, 0.1], trial=3),
  make_run([10, 50, 100], [0.2, 0.6, 0.7], trial=4),
]


def test_the_best_share_of_the_way():
  run = make_run([1, 2, 3], [16.0, 4.0, 8.0], workload=FALLING)
  assert picture.best_shares(run).tolist() == [0.0, 0.5, 0.5]
  assert picture.best_shares(RUNS[2]).tolist() == [-math.inf, 0.3, 0.3]


def test_curves_by_how_runs_end():
  curves = picture.progress_curves(RUNS)
  assert {name: len(found) for name, found in curves.items()} == {
    'reach': 1,
    'come near': 1,
    'fail': 1,
  }
  # At f = .02, .04, ..., 1; evaluated at .1, .5 and 1.
  expected = np.repeat([0.0, 0.2, 0.8, 1.0], [4, 20, 25, 1])
  np.testing.assert_array_equal(curves['reach'][0], expected)
  expected = np.repeat([0.0, 0.3], [24, 26])
  np.testing.assert_array_equal(curves['fail'][0], expected)


def test_lines_and_bands(tmp_path):
  shown = table.judge(RUNS, ['never', 'floor'])
  axes = Figure().subplots()
  picture.draw_budgets(axes, shown)
  assert [line.get_label() for line in axes.lines] == ['never', 'floor']
  # Each costs 100; with the floor the third costs 10, the fourth 50.
  assert [line.get_ydata()[-1] for line in axes.lines] == [0.75, 1.0]
  axes = Figure().subplots()
  picture.draw_progress(axes, RUNS)
  labels = [line.get_label() for line in axes.lines]
  assert labels == ['reach (1)', 'come near (1)', 'fail (1)']
  path = tmp_path / 'x.png'
  picture.save_replay(path, shown)
  assert path.read_bytes()[:4] == b'\x89PNG'

"""tau at the ends of cycles of recorded runs."""

from __future__ import annotations

import numpy as np
import pytest

from recorded import FALLING, make_run
from reset_cycles.control.goals.expected import Expected
from reset_cycles.control.goals.final import Final
from reset_cycles.studies.expected import text
from reset_cycles.studies.expected.splits import fails, taus
from reset_cycles.studies.real_runs import reading
from reset_cycles.studies.replay.cases import comparable


def test_the_ends_of_four_cycles_by_hand():
  # Ends at .25, .5 and .75: the metrics there are .5, .9 and the target.
  run = make_run([1, 20, 45, 70, 99], [0.1, 0.5, 0.9, 1.0, 1.1])
  found = taus([run], 4, Final(), 'linear')
  np.testing.assert_allclose(found, [0.5, 0.1], rtol=0, atol=1e-12)
  # Expected: .825 at .25, and .91.
  found = taus([run], 4, Expected('q05'), 'linear')
  expected = [1 - 0.5 / 0.825, 1 - 0.9 / 0.91]
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_nothing_after_the_last_evaluation_nor_before_the_first():
  run = make_run([30, 60], [0.5, 0.6])
  found = taus([run], 4, Final(), 'linear')
  np.testing.assert_allclose(found, [0.5], rtol=0, atol=1e-12)
  assert taus([], 4, Final(), 'linear').shape == (0,)


def test_the_scale_counts_where_the_metric_falls():
  run = make_run([1, 30, 90], [9.0, 3.0, 3.0], workload=FALLING)
  for distance, expected in (('log', 0.5), ('linear', 0.25)):
    found = taus([run], 2, Final(), distance)
    np.testing.assert_allclose(found, [expected], rtol=0, atol=1e-12)


def test_which_runs_fail():
  assert fails(make_run([1, 2], [0.1, 0.49]))
  assert not fails(make_run([1, 2], [0.1, 0.5]))
  assert not fails(make_run([1, 2], [0.1, 1.0]))


@pytest.mark.parametrize('cycles', (6, 12))
def test_splitting_a_run_does_not_reset_good_models(cycles):
  """Nine in ten ends of runs that reach, and the runs that fail as before."""
  runs = comparable(reading.read_runs())
  reach = [run for run in runs if run.reached is not None]
  failed = [run for run in runs if fails(run)]
  assert (len(reach), len(failed)) == (1326, 152)
  final, expected = (
    [taus(some, cycles, goal, 'linear') for some in (reach, failed)]
    for goal in (Final(), Expected())
  )
  assert np.mean(final[0] == 0) < 0.01
  assert np.mean(expected[0] == 0) >= 0.895
  assert np.quantile(final[0], 0.95) > 0.2
  assert np.quantile(expected[0], 0.95) < 0.04
  assert np.median(final[1]) - np.median(expected[1]) < 0.02
  assert np.median(expected[1]) > 0.84


def test_all_tables_have_their_title():
  runs = [
    make_run([1, 20, 60], [0.1, 0.5, y], trial=i, submission=name)
    for i, (name, y) in enumerate(zip('aaabb', (1, 1, 0.4, 1, 0.9)))
  ]
  lines = text.all_lines(runs)
  titles = [line for line in lines if line.endswith(':')]
  assert len(titles) == 5
  # Of one workload none can be left out, of two submissions either.
  cells = [line.split() for line in text.left_out_lines(runs)[1:]]
  assert ['–' in row for row in cells] == [False, False, True, True]

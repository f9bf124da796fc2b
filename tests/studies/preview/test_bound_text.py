"""The bound of a plan beside those of plain schedules."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest

import reference
from reset_cycles.experiments.settings import RUNS
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.studies.preview.bound_text import (
  best_of_shape,
  bound_lines,
  compare,
  cosine_rates,
  wsd_rates,
)
from reset_cycles.studies.preview.position import planned_rates

DATA = pathlib.Path(__file__).parents[2] / 'data'
ORACLE = json.loads((DATA / 'bound.json').read_text())


@pytest.mark.oracle
@pytest.mark.parametrize(
  ('name', 'rates'),
  [('cosine|T=100', cosine_rates), ('wsd-0.2-linear|T=100', wsd_rates)],
)
def test_plain_schedules_agree_with_reference_values(name, rates):
  expected = ORACLE[name]['eta']
  np.testing.assert_allclose(rates(100), expected, rtol=0, atol=1e-15)


def test_a_short_wsd_never_falls():
  assert wsd_rates(5).tolist() == [1.0] * 5
  assert wsd_rates(10).tolist() == [1.0] * 9 + [0.5]


@pytest.mark.parametrize('name', ['peaks_soft', 'decays_soft', 'one_cycle'])
def test_a_plan_agrees_with_the_twin(name):
  rates = np.array(reference.chain_rates(150, RUNS[name]))
  shape = (rates / rates.max()).tolist()
  noise = reference.last_iterate_bound(shape, [1.0] * len(shape), 0.0)
  start = 1 / (2 * math.fsum(shape))
  best = compare(planned_rates(lay_out(150, RUNS[name])))['this plan']
  # The plan's rates are float32.
  assert best.gamma == pytest.approx(math.sqrt(start / noise), rel=1e-6)
  assert best.bound == pytest.approx(2 * math.sqrt(start * noise), rel=1e-6)


def test_only_the_shape_counts_and_no_zeros_at_the_end():
  rates = np.float32([0.0, 2.0, 0.0, 1.0, 0.0, 0.0])
  assert best_of_shape(rates) == best_of_shape(np.array([0.0, 1.0, 0.0, 0.5]))


TEXT = """\
Bound on SGD's last iterate for D = G = 1:
  schedule          gamma*  Omega*
  this plan         1.000   1.000
  one cosine cycle  0.3312  1.208
  WSD               0.2970  0.8416
With its highest rate at gamma*, the best there is, SGD on a convex function
ends at most Omega* above the minimum, in expectation; D is the distance at the
start and G the largest norm of a gradient. That compares shapes of equal
length. It knows neither Adam nor networks nor resets: a chain counts as one
descent. WSD is constant and then falls linearly over 20% of the steps; neither
it nor the cosine cycle has a warm-up.
The plan's last 3 steps have a rate of 0. The bound divides by the last rate and
would be infinite; a step that changes nothing is left out instead.
"""


def test_text_and_zeros_at_the_end():
  # gamma* = sqrt(start / noise) and Omega* = 2 sqrt(start * noise), where start
  # and noise are 1/2 and 1/2 for one step of rate 1, 1/8 and 17/12 for WSD, all
  # of whose four rates are 1, and 0.2 and 1.8236 for the cosine's rates of 1,
  # 0.8536, 0.5 and 0.1464.
  lines = bound_lines(np.float32([0.25, 0.0, 0.0, 0.0]))
  assert lines == TEXT.splitlines()


@pytest.mark.parametrize(
  ('rates', 'said'),
  [
    ([0.0, 1.0], ''),
    (
      [0.0, 1.0, 0.0],
      "The plan's last step has a rate of 0. The bound divides by the last "
      'rate and would be infinite; a step that changes nothing is left out '
      'instead.',
    ),
    ([0.0, 0.0], 'All rates of the plan are 0: nothing moves.'),
  ],
)
def test_what_is_said_about_zeros_at_the_end(rates, said):
  text = ' '.join(bound_lines(np.float32(rates)))
  assert text.partition(' the cosine cycle has a warm-up.')[2].strip() == said


def test_nothing_moves():
  assert best_of_shape(np.zeros(3)) == (0.0, math.inf)
  assert bound_lines(np.zeros(3))[2].split() == ['this', 'plan', '0.000', 'inf']

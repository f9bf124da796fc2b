"""A plan before anything is trained: its cycles, one step of it, its bound."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from helpers import reference
from helpers.curves import assert_close
from helpers.runs import with_hparams
from reset_cycles.core.cycle import Cosine, Cycle, Hparams, Shape
from reset_cycles.experiments.settings import RUNS
from reset_cycles.parts.composed_shapes import (
  PiecewiseConstant,
  Ratio,
  Sequential,
)
from reset_cycles.parts.shapes import Lambda, Linear, Polynomial
from reset_cycles.schedule_params import THESIS, ScheduleParams
from reset_cycles.studies import plans
from reset_cycles.studies.plans import RunPlan
from reset_cycles.studies.preview import plan as preview
from reset_cycles.studies.text_table import table_lines

STEP_HINT = 10
LENGTHS = (10, 5, 5)


def each(params, hparams=(), cycles=()):
  """The settings with other fields of hparams, and of cycles, one by one."""
  changed = [
    dataclasses.replace(
      cycle, hparams=dataclasses.replace(cycle.hparams, **own), **more
    )
    for cycle, own, more in zip(
      params.cycles, hparams or ({},) * 3, cycles or ({},) * 3
    )
  ]
  return dataclasses.replace(params, cycles=tuple(changed))


# 20 steps in cycles of 10, 5 and 5, with warm-ups of 3, 1 and 0.
PARAMS = each(
  RUNS['peaks_soft'],
  [{'warmup_factor': factor} for factor in (0.3, 0.3, 0.0)],
  [{'length': length} for length in (2.0, 1.0, 1.0)],
)
SCHEDULED = each(
  PARAMS,
  [{'weight_decay': decay} for decay in (0.1, 0.35, 0.6)],
  [
    {'weight_decay_shape': shape}
    for shape in (Cosine(), None, Cosine(floor=0.5))
  ],
)


@pytest.mark.parametrize('name', ['warmups_soft', 'failed_start_soft'])
def test_rates_agree_with_the_twin(name):
  params = RUNS[name]
  rates = plans.planned_rates(RunPlan(150, params))
  assert rates.dtype == np.float32
  peak = max(cycle.hparams.learning_rate for cycle in params.cycles)
  assert_close(rates, reference.chain_rates(150, params), peak)


def test_weight_decays_agree_with_the_twin():
  decays = plans.planned_weight_decays(RunPlan(STEP_HINT, SCHEDULED))
  assert decays.dtype == np.float32
  expected = [
    reference.weight_decay(t, length, cycle)
    for cycle, length in zip(SCHEDULED.cycles, LENGTHS)
    for t in range(length)
  ]
  assert_close(decays, expected, 0.6)


def test_a_plan_with_what_is_no_rate_is_refused():
  negative = Lambda(lambda share: 0.475 - share)
  params = each(RUNS['one_cycle'], cycles=[{'decay': negative}])
  params = with_hparams(params, warmup_factor=0.0)
  # 40 steps: the first share above 0.475 is 0.5, at step 20.
  with pytest.raises(ValueError, match=r'cycles\[0\]: .* is -.* at step 20 of'):
    plans.check(RunPlan(20, params))


# Two cycles of 100 steps with peaks of 1 and 2 and no warm-up.
TWO_CYCLES = dataclasses.replace(
  THESIS,
  cycles=tuple(
    Cycle(Hparams(learning_rate=peak, weight_decay=0.25, warmup_factor=0.0))
    for peak in (1.0, 2.0)
  ),
)


def with_decay(decay: Shape) -> ScheduleParams:
  """TWO_CYCLES with another decay in the first one."""
  return each(TWO_CYCLES, cycles=[{'decay': decay}, {}])


def test_cycles_of_three_peaks():
  # 2 * 1,600 steps in three cycles of 1067, 1067, 1066; W = floor(0.02 L).
  assert table_lines(cycle_rows(1600, RUNS['peaks_soft'])) == [
    '  cycle  first  last   warm-up       steps  peak       decay   share',
    '  1      1      1,067  LinearWarmup  21     0.001749   Cosine  33.3%',
    '  2      1,068  2,134  LinearWarmup  21     0.002749   Cosine  33.3%',
    '  3      2,135  3,200  LinearWarmup  21     0.0007486  Cosine  33.3%',
  ]


def test_cycles_of_three_warm_ups_of_one_budget_and_of_a_small_peak():
  rows = cycle_rows(1500, RUNS['warmups_full'])
  assert [row[4] for row in rows[1:]] == ['20', '200', '5']
  rows = cycle_rows(1500, RUNS['failed_start_soft'])
  assert [row[1:3] for row in rows[1:]] == [('1', '750'), ('751', '1,500')]
  assert [row[5] for row in rows[1:]] == ['0.05175', '0.001749']
  params = with_hparams(RUNS['one_cycle'], learning_rate=1.5e-7)
  assert cycle_rows(100, params)[1][5] == '1.5e-07'


def with_rates(params):
  return cycle_rows(100, params, plans.planned_rates(RunPlan(100, params)))


@pytest.mark.parametrize(
  ('decay', 'highest'),
  [
    (PiecewiseConstant((1, 1.5), at=(0.5,)), '1.5'),
    (Polynomial(start=0.5), '0.5'),
    (Sequential((Cosine(), Linear()), at=(0.5,), peaks=(0.75, 2.5)), '2.5'),
  ],
)
def test_a_highest_rate_that_is_not_the_peak(decay, highest):
  header, first, second = with_rates(with_decay(decay))
  assert header[5:8] == ('peak', 'highest', 'decay')
  assert first[5:7] == ('1', highest)
  assert second[5:7] == ('2', '2')


def test_a_difference_that_four_digits_hide_is_none():
  rows = with_rates(with_decay(Polynomial(start=0.9999)))
  assert [row[6] for row in rows] == ['highest', '0.9999', '2']
  params = with_decay(Polynomial(start=0.99999))
  assert with_rates(params) == cycle_rows(100, params)


def test_a_scheduled_weight_decay_has_a_column():
  params = each(
    TWO_CYCLES,
    [{}, {'weight_decay': 0.75}],
    [{'weight_decay_shape': shape} for shape in (Ratio(), Cosine(floor=0.1))],
  )
  assert table_lines(cycle_rows(50, params)) == [
    '  cycle  first  last  warm-up       steps  peak  decay   '
    'weight decay            share',
    '  1      1      50    LinearWarmup  0      1     Cosine  '
    'Ratio 0.25              50.0%',
    '  2      51     100   LinearWarmup  0      2     Cosine  '
    'Cosine(floor=0.1) 0.75  50.0%',
  ]


def test_the_widest_column_goes_on_in_further_lines():
  rows = [
    ('cycle', 'decay', 'share'),
    ('1', 'cosine, then linear, then cosine', '50%'),
    ('2', '', 'a' * 12),
  ]
  assert table_lines(rows, width=35) == [
    '  cycle  decay         share',
    '  1      cosine, then  50%',
    '         linear, then',
    '         cosine',
    '  2                    aaaaaaaaaaaa',
  ]
  # Words that are too long are broken.
  assert table_lines([('a', 'b' * 20), ('c' * 12, 'd')], width=20) == [
    '  a         bbbbbbbb',
    '            bbbbbbbb',
    '            bbbb',
    '  cccccccc  d',
    '  cccc',
  ]


def cycle_rows(step_hint, params, rates=None):
  return preview.cycle_rows(RunPlan(step_hint, params).chain.cycles, rates)


def position(step, params=PARAMS):
  plan = RunPlan(STEP_HINT, params)
  return preview.position_lines(
    step,
    plan.chain.cycles,
    plans.planned_rates(plan),
    plans.planned_weight_decays(plan),
  )


@pytest.mark.parametrize(
  ('step', 'cycle', 'phase', 'left'),
  [
    (0, '1 of 3; 0 of its 10', 'warm-up; 0 of its 3', '10 steps: at step 10'),
    (2, '1 of 3; 2 of its 10', 'warm-up; 2 of its 3', '8 steps: at step 10'),
    (3, '1 of 3; 3 of its 10', 'decay; 0 of its 7', '7 steps: at step 10'),
    (9, '1 of 3; 9 of its 10', 'decay; 6 of its 7', '1 step: at step 10'),
    (10, '2 of 3; 0 of its 5', 'warm-up; 0 of its 1', '5 steps: at step 15'),
    (11, '2 of 3; 1 of its 5', 'decay; 0 of its 4', '4 steps: at step 15'),
    (15, '3 of 3; 0 of its 5', 'decay; 0 of its 5', '5 steps: at step 20'),
    (19, '3 of 3; 4 of its 5', 'decay; 4 of its 5', '1 step: at step 20'),
  ],
)
def test_around_every_boundary(step, cycle, phase, left):
  expected = reference.chain_rates(STEP_HINT, PARAMS)[step]
  lines = position(step)
  assert lines[1].strip().startswith(f'cycle          {cycle}')
  assert lines[2].strip().startswith(f'phase          {phase}')
  assert float(lines[3].split()[-1]) == pytest.approx(expected, rel=1e-5)
  what = 'the plan ends' if step >= 15 else 'cycle'
  assert lines[4].strip().startswith(f'boundary       in {left} {what}')


def test_a_scheduled_weight_decay_has_a_line():
  lines = position(15, SCHEDULED)
  assert lines[4].split()[:2] == ['weight', 'decay']
  assert float(lines[4].split()[-1]) == pytest.approx(0.6, rel=1e-5)


@pytest.mark.parametrize('step', [-1, 20])
def test_no_step_of_the_plan(step):
  with pytest.raises(ValueError, match=f'--at={step}: the plan has 20 steps'):
    position(step)


def test_the_bound_of_a_plan_beside_others():
  steps = 100
  lines = preview.bound_lines(np.full(steps, 0.25, np.float32))
  rows = [line.split() for line in lines[2:5]]
  constant = reference.last_iterate_bound([1.0] * steps, [1.0] * steps, 1.0)
  start = 1 / (2 * steps)
  best = 2 * (start * (constant - start)) ** 0.5
  assert float(rows[0][-1]) == pytest.approx(best, rel=1e-3)
  # A cosine and WSD, which fall to nearly 0, do better than a constant rate.
  assert all(float(row[-1]) < float(rows[0][-1]) for row in rows[1:])


@pytest.mark.parametrize(
  ('rates', 'said'),
  [
    ([1.0, 0.5], ''),
    ([1.0, 0.0], 'last step has a rate of 0'),
    ([1.0, 0.0, 0.0], 'last 2 steps have a rate of 0'),
    ([0.0, 0.0], 'All rates of the plan are 0'),
  ],
)
def test_rates_of_0_at_the_end(rates, said):
  text = ' '.join(preview.bound_lines(np.array(rates)))
  assert said in text
  assert ('rate of 0' in text or 'are 0' in text) == bool(said)

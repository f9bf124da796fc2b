"""Where in a plan a step is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import reference
from curves import assert_close
from reset_cycles.experiments.settings import RUNS
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.studies.preview import position
from reset_cycles.studies.preview.position import (
  Position,
  find_position,
  planned_rates,
  planned_weight_decays,
  position_lines,
)

# 20 steps in cycles of 10, 5 and 5, with warm-ups of floor(0.3 L) = 3, 1 and 0.
PARAMS = dataclasses.replace(
  RUNS['peaks_soft'],
  warmups=('linear', 'linear', 'none'),
  lengths=(2.0, 1.0, 1.0),
  alter_warmup=(0.28, 0.28, 0.28),
)
STEP_HINT = 10
RATES = planned_rates(lay_out(STEP_HINT, PARAMS))
SCHEDULED = dataclasses.replace(
  PARAMS,
  weight_decays=('cosine', 'ratio', 'constant'),
  alter_weight_decay=(0.0, 0.25, 0.5),
)


def at(step):
  return find_position(step, lay_out(STEP_HINT, PARAMS), RATES)


@pytest.mark.parametrize('name', RUNS)
def test_rates_agree_with_the_twin(name):
  params = RUNS[name]
  rates = planned_rates(lay_out(150, params))
  assert rates.dtype == np.float32
  peak = params.hparams.learning_rate + max(params.alter_lr)
  assert_close(rates, reference.chain_rates(150, params), peak)


@pytest.mark.parametrize(
  ('step', 'cycle', 'start', 'warmup_end', 'end', 'phase'),
  [
    (0, 0, 0, 3, 10, 'warm-up'),
    (2, 0, 0, 3, 10, 'warm-up'),
    (3, 0, 0, 3, 10, 'decay'),
    (9, 0, 0, 3, 10, 'decay'),
    (10, 1, 10, 11, 15, 'warm-up'),
    (11, 1, 10, 11, 15, 'decay'),
    (14, 1, 10, 11, 15, 'decay'),
    (15, 2, 15, 15, 20, 'decay'),
    (19, 2, 15, 15, 20, 'decay'),
  ],
)
def test_around_every_boundary(step, cycle, start, warmup_end, end, phase):
  expected = reference.chain_rates(STEP_HINT, PARAMS)[step]
  position = at(step)
  assert position[:6] == (step, cycle, 3, start, warmup_end, end)
  assert position.learning_rate == pytest.approx(expected, rel=1e-6)
  assert position.phase == phase
  assert position.phase_bounds == (
    (start, warmup_end) if phase == 'warm-up' else (warmup_end, end)
  )


def test_weight_decays_agree_with_the_twin():
  decays = planned_weight_decays(lay_out(STEP_HINT, SCHEDULED))
  assert decays.dtype == np.float32
  expected = [
    reference.weight_decay(t, length, SCHEDULED, cycle)
    for cycle, length in enumerate((10, 5, 5))
    for t in range(length)
  ]
  assert_close(decays, expected, SCHEDULED.hparams.weight_decay + 0.5)
  position = find_position(10, lay_out(STEP_HINT, SCHEDULED), RATES, decays)
  assert position.weight_decay == 0.0  # the warm-up's first step, by ratio
  assert position[:-1] == at(10)[:-1]


@pytest.mark.parametrize(
  ('changes', 'expected'),
  [
    ({}, None),
    ({'alter_weight_decay': (0.5,)}, [0.75] * 4),
    ({'weight_decays': ('constant',)}, [0.25] * 4),
  ],
)
def test_weight_decays_of_one_cycle(changes, expected):
  one = RUNS['one_cycle']
  hparams = dataclasses.replace(one.hparams, weight_decay=0.25)
  params = dataclasses.replace(one, hparams=hparams, **changes)
  decays = planned_weight_decays(lay_out(2, params))
  assert (decays if decays is None else decays.tolist()) == expected


@pytest.mark.parametrize('step', [-1, 20])
def test_no_step_of_the_plan(step):
  with pytest.raises(
    ValueError,
    match=f'--at={step}: the plan has 20 steps, counted from 0: give one from '
    '0 to 19',
  ):
    at(step)


def test_in_words_in_a_warm_up():
  position = Position(1_002, 1, 3, 1_000, 1_003, 2_500, 0.00123456789)
  assert position_lines(position) == [
    'Step 1,002 (counted from 0, like the clock), about to be taken:',
    '  cycle          2 of 3; 2 of its 1,500 steps are done (0.1%)',
    '  phase          warm-up; 2 of its 3 steps are done (66.6%)',
    '  learning rate  0.00123457',
    '  boundary       in 1,498 steps: at step 2,500 cycle 3 starts',
  ]


def test_in_words_with_a_scheduled_weight_decay():
  position = Position(1_002, 1, 3, 1_000, 1_003, 2_500, 0.00125, 0.0812345678)
  assert position_lines(position)[3:] == [
    '  learning rate  0.00125',
    '  weight decay   0.0812346',
    '  boundary       in 1,498 steps: at step 2,500 cycle 3 starts',
  ]
  assert '  weight decay   0' in position_lines(
    position._replace(weight_decay=0.0)
  )


def test_in_words_at_the_last_step():
  position = Position(2_999, 0, 1, 0, 1_000, 3_000, 0.0)
  assert position_lines(position) == [
    'Step 2,999 (counted from 0, like the clock), about to be taken:',
    '  cycle          1 of 1; 2,999 of its 3,000 steps are done (99.9%)',
    '  phase          decay; 1,999 of its 2,000 steps are done (99.9%)',
    '  learning rate  0',
    '  boundary       in 1 step: at step 3,000 the plan ends',
  ]


def test_a_plan_with_what_is_no_rate_is_refused():
  negative = {'name': 'lambda', 'function': lambda share: 0.475 - share}
  params = ScheduleParams(decays=('cosine', negative, 'cosine'))
  # 20 steps a cycle: the first share above 0.475 is 0.5, at step 10.
  with pytest.raises(ValueError, match=r'decays\[1\] is -.* at step 10 of'):
    position.planned_rates(lay_out(30, params))

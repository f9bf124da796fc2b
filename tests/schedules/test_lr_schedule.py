"""One cycle, the chain of cycles."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import reference
import shape_examples
from curves import assert_close, read
from reset_cycles.schedule_params import (
  HPARAMS,
  SCHEDULE_PARAMS,
  ScheduleParams,
)
from reset_cycles.schedules import lr_schedule, warmup_decay
from thesis_experiments import EXPERIMENTS

DATA = pathlib.Path(__file__).parents[1] / 'data'


def make_params(warmup='linear', decay='cosine', n=1, **changes):
  """n equal cycles of one kind."""
  return ScheduleParams(
    **{
      'warmups': (warmup,) * n,
      'decays': (decay,) * n,
      'alter_lr': (0.0,) * n,
      'alter_warmup': (0.0,) * n,
      'lengths': (1.0,) * n,
      'budget_factor': 1.0,
      **changes,
    }
  )


@pytest.mark.parametrize('decay', shape_examples.PLAIN_DECAYS)
@pytest.mark.parametrize('warmup', shape_examples.PLAIN_WARMUPS)
def test_all_cycles_agree_with_twin(warmup, decay):
  # W = floor(0.08 * 201) = 16. Whole counts, and fractional ones as they come
  # about when the pace is not 1; the boundary and one step on either side of it
  # are among them.
  length = 201
  params = make_params(warmup, decay, alter_lr=(0.001,), alter_warmup=(0.06,))
  fractions = np.random.default_rng(0).uniform(0, length, 400)
  counts = np.concatenate([np.arange(length + 1), fractions, [15.5, 16.5]])
  counts = counts.astype(np.float32)
  (schedule,) = lr_schedule.cycle_schedules(length, params.hparams, params)
  expected = [reference.cycle_rate(float(t), length, params, 0) for t in counts]
  peak = params.hparams.learning_rate + 0.001
  assert_close(read(schedule, counts), expected, peak)


@pytest.mark.parametrize(
  ('factor', 'step_hint', 'horizon'),
  ((2.0, 80_000, 160_000), (0.29, 100, 29), (1.1, 10, 11), (0.5, 7, 3)),
)
def test_horizon_is_exact(factor, step_hint, horizon):
  params = make_params(budget_factor=factor)
  assert lr_schedule.horizon_steps(step_hint, params) == horizon


@pytest.mark.parametrize(
  ('start', 'horizon', 'lengths', 'ends'),
  (
    (0, 12, (1, 1, 1), (4, 8, 12)),
    (0, 1600, (1.0, 1.0, 1.0), (534, 1067, 1600)),
    (0, 11, (1, 1, 1), (4, 8, 11)),
    (0, 10, (1, 1, 1), (4, 7, 10)),
    (3, 12, (1, 1), (8, 12)),
    (0, 100, (1, 1, 2), (25, 50, 100)),
    (0, 100, (0.1, 0.2, 0.7), (10, 30, 100)),
    (0, 10, (0.7, 0.2, 0.1), (7, 9, 10)),
    (0, 3, (1, 1, 1), (1, 2, 3)),
    (0, 3, (100, 1, 1), (3, 3, 3)),
    (0, 1, (1, 1, 1), (1, 1, 1)),
    (5, 5, (1, 1), (5, 5)),
    (0, 7, (3,), (7,)),
  ),
)
def test_cycle_ends_by_hand(start, horizon, lengths, ends):
  assert lr_schedule.cycle_ends(start, horizon, lengths) == ends


LENGTHS = ((1.0,) * 3, (1.0,) * 7, (1, 1, 2), (0.1, 0.2, 0.7), (3, 0.05, 1.7))


@pytest.mark.parametrize('lengths', LENGTHS)
def test_a_plan_made_at_a_boundary_is_the_rest_of_the_plan(lengths):
  for horizon in (*range(7, 60), 1600, 160_000):
    ends = lr_schedule.cycle_ends(0, horizon, lengths)
    assert list(ends) == reference.cycle_ends(0, horizon, lengths)
    assert ends[-1] == horizon
    for i, end in enumerate(ends[:-1]):
      rest = lr_schedule.cycle_ends(end, horizon, lengths[i + 1 :])
      assert rest == ends[i + 1 :]


def test_equal_cycles_differ_by_at_most_a_step():
  for horizon in range(5, 200):
    ends = lr_schedule.cycle_ends(0, horizon, (1.0,) * 5)
    sizes = np.diff((0, *ends))
    assert sizes.max() - sizes.min() <= 1
    assert list(sizes) == sorted(sizes, reverse=True)


def test_jax_lr_schedule_of_the_default():
  schedule, has_multiple, reinit_steps = lr_schedule.jax_lr_schedule(
    80_000, HPARAMS, SCHEDULE_PARAMS
  )
  # The horizon, 160,000, is no boundary.
  assert (has_multiple, reinit_steps) == (True, (53_334, 106_667))
  peak = 0.0017486387539278373
  starts = np.asarray([0, *reinit_steps])
  # W = floor(0.02 * 53,334) = floor(0.02 * 53,333) = 1066. The last step of a
  # cycle is a step short of zero: (pi / 52,267)^2 / 4 of the peak.
  assert_close(read(schedule, starts), 0.0, peak)
  assert_close(read(schedule, starts + 533), peak / 2, peak)
  assert_close(read(schedule, starts + 1066), peak, peak)
  last = read(schedule, np.append(starts[1:], 160_000) - 1)
  assert_close(last, 0.0, peak)


def test_one_cycle_has_no_boundary():
  _, has_multiple, reinit_steps = lr_schedule.jax_lr_schedule(
    100, HPARAMS, make_params()
  )
  assert (has_multiple, reinit_steps) == (False, ())


def test_more_cycles_than_steps():
  params = make_params(n=3, budget_factor=0.5)
  assert lr_schedule.horizon_steps(6, params) == 3
  with pytest.raises(ValueError, match='3 cycles do not fit into 2 steps'):
    lr_schedule.jax_lr_schedule(5, params.hparams, params)


@pytest.mark.parametrize('figure', EXPERIMENTS)
def test_chain_of_every_experiment_agrees_with_twin(figure):
  params = EXPERIMENTS[figure]
  expected = reference.chain_rates(800, params)
  schedule, _, _ = lr_schedule.jax_lr_schedule(800, params.hparams, params)
  peak = params.hparams.learning_rate + max(params.alter_lr)
  assert_close(read(schedule, np.arange(len(expected))), expected, peak)


ORACLE = json.loads((DATA / 'thesis_chain.json').read_text())
ORACLE_FIGURES = {
  'fig3.3a|T=1600': EXPERIMENTS['3.3ab'],
  'fig3.3c_publiccode|T=1600': EXPERIMENTS['3.3cd'],
}


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_chain_agrees_with_reference_values(figure):
  params, expected = ORACLE_FIGURES[figure], ORACLE[f'{figure}|even']
  schedule, _, reinit_steps = lr_schedule.jax_lr_schedule(
    800, params.hparams, params
  )
  assert [*reinit_steps, 1600] == expected['boundaries']
  assert list(lr_schedule.cycle_lengths(800, params)) == expected['lengths']
  rates = read(schedule, np.arange(1600))
  assert_close(rates, expected['values'], max(expected['peaks']))


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_cycles_agree_with_reference_values(figure):
  # The other division, into cycles of 533 steps each.
  params, expected = ORACLE_FIGURES[figure], ORACLE[f'{figure}|floor']
  for i, values in enumerate(np.split(np.asarray(expected['values']), 3)):
    schedule = warmup_decay.combine_warmup_decay_fn(
      533,
      10,
      params.hparams.learning_rate + params.alter_lr[i],
      'linear',
      params.decays[i],
    )
    peak = expected['peaks'][i]
    assert_close(read(schedule, np.arange(533)), values, peak)


@pytest.mark.oracle
@pytest.mark.parametrize('figure', ORACLE_FIGURES)
def test_twin_agrees_with_reference_values(figure):
  expected = ORACLE[f'{figure}|even']
  rates = reference.chain_rates(800, ORACLE_FIGURES[figure])
  # The values are given with ten digits.
  np.testing.assert_allclose(rates, expected['values'], rtol=1e-9, atol=1e-13)

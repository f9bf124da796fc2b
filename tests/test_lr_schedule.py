"""Shapes of phases, one cycle, the chain of cycles."""

from __future__ import annotations

import json
import pathlib
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from soft_reset import lr_schedule
from soft_reset.schedule_params import HPARAMS, SCHEDULE_PARAMS, ScheduleParams
from thesis_experiments import EXPERIMENTS

DATA = pathlib.Path(__file__).parent / 'data'

# In half ulps, 2^-24 of a value: a share of the phase takes three roundings; the
# steepest function of it is the exponential warm-up, where ln(100) = 4.6 times
# the share's error shows; the function itself and the product with the peak
# round once more each. 3 * 4.6 + 2 < 16 half ulps of the peak.
TOLERANCE = 16 * 2.0**-24


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


def hyperparameters(warmup_factor=0.02, learning_rate=1.0):
  return types.SimpleNamespace(
    learning_rate=learning_rate, warmup_factor=warmup_factor
  )


def cycle(warmup, decay, length, factor, peak=1.0):
  return lr_schedule.combine_warmup_decay_fn(
    length,
    hyperparameters(factor, peak),
    lr_schedule.WARMUPS[warmup],
    lr_schedule.DECAYS[decay],
    0.0,
    0.0,
  )


def read(schedule, counts):
  """The schedule at all counts, compiled."""

  def rate(count):
    return jnp.asarray(schedule(count), jnp.float32)

  return np.asarray(jax.jit(jax.vmap(rate))(counts))


def assert_close(actual, expected, peak):
  np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * peak)


# Written out for a peak of 1, L = 100 and W = 10 (factor 0.1). Decays count from
# the end of the warm-up; exponential and linear hold for W + 0.2 L = 30 more.
HALF_COSINE = {10: 1.0, 55: 0.5, 100: 0.0, 32.5: 0.5 + 0.5 * 2**-0.5}
BY_HAND = [
  ('linear', 'constant', {0: 0.0, 1: 0.1, 2.5: 0.25, 9: 0.9, 10: 1, 100: 1}),
  ('cosine', 'constant', {0: 0, 2.5: 0.5 - 0.5 * 2**-0.5, 5: 0.5, 10: 1}),
  ('exponential', 'constant', {0: 0.01, 2.5: 10**-1.5, 5: 0.1, 10: 1, 20: 1}),
  ('linear', 'cosine', HALF_COSINE),
  ('linear', 'exponential', {10: 1.0, 40: 1.0, 70: 10**-0.5, 100: 0.1}),
  ('linear', 'linear', {10: 1.0, 40: 1.0, 55: 0.75, 70: 0.5, 99: 1 / 60}),
  ('linear', 'step', {54: 1.0, 55: 0.1, 77: 0.1, 78: 0.01, 100: 0.01}),
]


@pytest.mark.parametrize(('warmup', 'decay', 'values'), BY_HAND)
def test_phases_by_hand(warmup, decay, values):
  counts = np.asarray(list(values), np.float32)
  rates = read(cycle(warmup, decay, 100, 0.1), counts)
  assert_close(rates, list(values.values()), 1.0)


def test_linear_decay_ends_at_zero():
  # Hold until 40, then 0.8 L - 2 W = 60 steps.
  assert read(cycle('linear', 'linear', 100, 0.1), np.float32([100]))[0] == 0


def test_exponential_warmup_starts_at_a_hundredth_of_any_peak():
  rates = read(cycle('exponential', 'constant', 100, 0.1, 3.0), np.arange(11))
  np.testing.assert_allclose(rates[0], 0.03, rtol=TOLERANCE)
  np.testing.assert_allclose(rates[1:] / rates[:-1], 100**0.1, rtol=1e-6)


@pytest.mark.parametrize('decay', lr_schedule.DECAYS)
@pytest.mark.parametrize('warmup', lr_schedule.WARMUPS)
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


@pytest.mark.parametrize('warmup', ('linear', 'cosine', 'exponential'))
def test_warmup_meets_decay_at_the_boundary(warmup):
  # W = 20: the last step of the warm-up is below the peak, step W is the peak.
  rates = read(cycle(warmup, 'cosine', 200, 0.1), np.arange(18, 23))
  assert rates[0] < rates[1] < rates[2] == 1.0 > rates[3] > rates[4]


def test_linear_warmup_is_exact_near_its_start():
  # A form such as peak - peak * (1 - t / W) would be off by half an ulp of the
  # peak, W times as much in relation to the first step's rate.
  rates = read(cycle('linear', 'cosine', 100_000, 0.5), np.arange(1, 100))
  expected = np.arange(1, 100) / 50_000
  np.testing.assert_allclose(rates, expected, rtol=2 * 2.0**-23)


def test_no_warmup_starts_at_the_peak_whatever_the_factor():
  rates = read(cycle('none', 'cosine', 100, 0.3), np.arange(101))
  expected = 0.5 + 0.5 * np.cos(np.pi * np.arange(101) / 100)
  assert_close(rates, expected, 1.0)


def test_warmup_of_less_than_a_step_is_none():
  rates = read(cycle('linear', 'constant', 49, 0.02), np.arange(3))
  np.testing.assert_array_equal(rates, 1.0)


def test_warmup_as_long_as_the_cycle():
  rates = read(cycle('linear', 'cosine', 10, 1.0), np.arange(11))
  assert_close(rates, np.arange(11) / 10, 1.0)


# In binary floating point 0.29 * 100 is 28.999..., 0.1 + 0.2 is 0.30000000004,
# 0.07 * 100 is 7.0000000001 and 0.57 * 100 is 56.99999999999999.
@pytest.mark.parametrize(
  ('factor', 'altered', 'length', 'steps'),
  (
    (0.29, 0.0, 100, 29),
    (0.57, 0.0, 100, 57),
    (0.07, 0.0, 100, 7),
    (0.1, 0.2, 10, 3),
    (0.02, 0.18, 533, 106),
    (0.02, -0.015, 534, 2),
    (0.02, -0.02, 1000, 0),
    (0.02, 0.0, 534, 10),
    (0.02, 0.0, 533, 10),
    (0.02, 0.0, 500, 10),
    (0.02, 0.0, 499, 9),
    (1e-05, 0.0, 100_000, 1),
    (1e-05, 0.0, 99_999, 0),
    (0.3, 0.7, 33, 33),
  ),
)
def test_warmup_steps_are_exact(factor, altered, length, steps):
  found = lr_schedule.warmup_steps(length, hyperparameters(factor), altered)
  assert found == steps


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
    schedule = lr_schedule.combine_warmup_decay_fn(
      533,
      params.hparams,
      lr_schedule.linear_warmup_fn,
      lr_schedule.DECAYS[params.decays[i]],
      params.alter_lr[i],
      0.0,
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

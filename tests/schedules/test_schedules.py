"""Schedules of one formula and of several pieces, by hand and by oracle."""

from __future__ import annotations

import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from curves import TOLERANCE, read
from reset_cycles.schedules import formulas as schedules
from reset_cycles.schedules import schedule_chains

DATA = pathlib.Path(__file__).parents[1] / 'data'
ORACLE = json.loads((DATA / 'torch_cerebras.json').read_text())
NEIGHBOURS = json.loads((DATA / 'neighbour_schedules.json').read_text())


def straight(init_value, end_value, steps):
  return schedules.polynomial_schedule(init_value, end_value, 1, steps)


def half_cosine(init_value, end_value, steps):
  return schedules.cosine_schedule(init_value, end_value, steps)


def torch_one_cycle(total, max_value, init_value, end_value, p, **kinds):
  """Torch's turning points: step p * n - 1 and step n - 1."""
  return schedule_chains.one_cycle_schedule(
    init_value, max_value, end_value, p * total - 1, total - 1, **kinds
  )


def torch_one_cycle_of(p):
  start = p['max_lr'] / p['div']
  return torch_one_cycle(
    p['total_steps'],
    p['max_lr'],
    start,
    start / p['final'],
    p['pct_start'],
    three_phase=p['three_phase'],
    anneal={'cos': 'cosine'}.get(p['anneal'], p['anneal']),
  )


def cerebras_one_cycle_of(p):
  return torch_one_cycle(
    p['total_steps'],
    p['max'],
    p['initial'],
    p['initial'] / p['final_div_factor'],
    p['pct_start'],
    three_phase=p['three_phase'],
    anneal={'cos': 'cosine'}.get(p['anneal'], p['anneal']),
  )


def multi_step_of(p, initial):
  factors = dict.fromkeys(p['milestones'], p['gamma'])
  return optax.piecewise_constant_schedule(initial, factors)


def cyclic_of(p):
  top, base = p.get('max', p.get('max_lr')), p.get('base', p.get('base_lr'))
  return schedule_chains.cyclic_schedule(
    base, top, p['up'], p['down'], p['mode'], p['gamma']
  )


def three_cycles(p):
  pieces = []
  for peak in (0.1, 0.15, 0.05):
    pieces.append((straight(0.0, peak, 8), 8))
    pieces.append((half_cosine(peak, 0.0, 32), 32))
  return schedule_chains.joined(pieces)


CEREBRAS = {
  'ConstantLR': lambda p: optax.constant_schedule(p['val']),
  **dict.fromkeys(
    ('PolynomialLR_p1.0', 'PolynomialLR_p2.0', 'PolynomialLR_p0.5'),
    lambda p: schedules.polynomial_schedule(
      p['initial'], p['end'], p['power'], p['total_iters']
    ),
  ),
  'LinearLR_warmup': lambda p: straight(
    p['initial'], p['end'], p['total_iters']
  ),
  **dict.fromkeys(
    ('ExponentialLR_smooth', 'ExponentialLR_staircase'),
    lambda p: schedules.exponential_schedule(
      p['initial'], p['total_iters'], p['decay_rate'], p['staircase']
    ),
  ),
  **dict.fromkeys(
    (
      'InverseExponentialTimeDecayLR_e1_smooth',
      'InverseExponentialTimeDecayLR_e1_staircase',
      'InverseExponentialTimeDecayLR_e2_staircase',
    ),
    lambda p: schedules.inverse_time_schedule(
      p['initial'],
      p['total_iters'],
      p['decay_rate'],
      p['step_exponent'],
      p['staircase'],
    ),
  ),
  **dict.fromkeys(
    ('InverseSquareRootDecayLR', 'InverseSquareRootDecayLR_init1'),
    lambda p: schedules.inverse_power_schedule(
      p['initial'] * p['scale'] / math.sqrt(p['warmup_steps']),
      p['warmup_steps'],
    ),
  ),
  'CosineDecayLR': lambda p: half_cosine(
    p['initial'], p['end'], p['total_iters']
  ),
  'StepLR': lambda p: schedules.exponential_schedule(
    p['initial'], p['step_size'], p['gamma'], staircase=True
  ),
  'MultiStepLR': lambda p: multi_step_of(p, p['initial']),
  'PiecewiseConstantLR': lambda p: schedule_chains.piecewise_constant_schedule(
    p['vals'], p['milestones']
  ),
  'CosineAnnealingLR': lambda p: schedules.cosine_annealing_schedule(
    p['initial'], p['eta_min'], p['T_max']
  ),
  'MultiplicativeLR': lambda p: schedule_chains.multiplicative_schedule(
    p['initial'], lambda t: p['coefficient'], 130
  ),
  # Two functions, of which each is multiplied with the initial rate.
  'LambdaLR_default': lambda p: schedule_chains.chained_schedule(
    [
      schedules.scaled(p['initial'], fn)
      for fn in (lambda t: t / 30, lambda t: 0.95**t)
    ]
  ),
  'LambdaLR_0.95': lambda p: schedules.scaled(p['initial'], lambda t: 0.95**t),
  **dict.fromkeys(('CyclicLR_triangular', 'CyclicLR_triangular2'), cyclic_of),
  **dict.fromkeys(
    (
      'OneCycleLR_cos_2phase',
      'OneCycleLR_cos_3phase',
      'OneCycleLR_linear_2phase',
    ),
    cerebras_one_cycle_of,
  ),
  'SequentialLR_linwarm_cosine': lambda p: schedule_chains.joined(
    [(straight(0.0, 0.1, 10), 10), (half_cosine(0.1, 0.0, 90), 90)]
  ),
  'SequentialLR_3cycles': three_cycles,
}

TORCH = {
  # A factor for some steps, then none.
  'ConstantLR': lambda p: schedule_chains.piecewise_constant_schedule(
    [0.1 * p['factor'], 0.1], [p['total_iters']]
  ),
  'LinearLR': lambda p: straight(
    0.1 * p['start_factor'], 0.1 * p['end_factor'], p['total_iters']
  ),
  **dict.fromkeys(
    ('PolynomialLR_p1.0', 'PolynomialLR_p2.0', 'PolynomialLR_p0.5'),
    lambda p: schedules.polynomial_schedule(
      0.1, 0.0, p['power'], p['total_iters']
    ),
  ),
  'ExponentialLR': lambda p: schedules.exponential_schedule(0.1, 1, p['gamma']),
  'StepLR': lambda p: schedules.exponential_schedule(
    0.1, p['step_size'], p['gamma'], staircase=True
  ),
  'MultiStepLR': lambda p: multi_step_of(p, 0.1),
  'CosineAnnealingLR': lambda p: schedules.cosine_annealing_schedule(
    0.1, p['eta_min'], p['T_max']
  ),
  'CosineAnnealingWarmRestarts_T25': lambda p: (
    schedule_chains.cosine_warm_restarts_schedule(
      0.1, p['eta_min'], [p['T_0']] * 6
    )
  ),
  **dict.fromkeys(('CyclicLR_triangular', 'CyclicLR_triangular2'), cyclic_of),
  **dict.fromkeys(
    (
      'OneCycleLR_cos_2phase',
      'OneCycleLR_cos_3phase',
      'OneCycleLR_linear_2phase',
    ),
    torch_one_cycle_of,
  ),
  'LambdaLR': lambda p: schedules.scaled(0.1, lambda t: 0.95**t),
  'MultiplicativeLR': lambda p: schedule_chains.multiplicative_schedule(
    0.1, lambda t: p['factor'], 130
  ),
  'SequentialLR_linear10_cosine90': lambda p: schedule_chains.joined(
    [
      (straight(1e-4, 0.1, 10), 10),
      (schedules.cosine_annealing_schedule(0.1, 0.0, 90), 90),
    ]
  ),
  'ChainedScheduler_const_exp': lambda p: schedule_chains.chained_schedule(
    [
      schedule_chains.piecewise_constant_schedule([0.01, 0.1], [20]),
      schedules.exponential_schedule(1.0, 1, 0.9),
    ]
  ),
}


CASES = [
  (library, name)
  for library, table in (('cerebras', CEREBRAS), ('torch', TORCH))
  for name in table
]


def assert_close(actual, expected):
  """Within float32's rounding of the largest value."""
  bound = TOLERANCE * np.max(np.abs(expected))
  np.testing.assert_allclose(actual, expected, rtol=0, atol=bound)


def test_every_scheduler_is_compared():
  assert set(CEREBRAS) == set(ORACLE['cerebras'])
  assert set(TORCH) == set(ORACLE['torch'])


@pytest.mark.oracle
@pytest.mark.parametrize(('library', 'name'), CASES)
def test_agrees_with_torch_and_cerebras(library, name):
  case = {'cerebras': CEREBRAS, 'torch': TORCH}[library][name]
  params, expected = (
    ORACLE[library][name]['params'],
    ORACLE[library][name]['lr'],
  )
  if name.startswith('OneCycle'):
    # Beyond its end the one of Cerebras rises again, and torch's is an error.
    expected = expected[: params['total_steps']]
  rates = read(case(params), np.arange(len(expected)))
  assert_close(rates, expected)


def numbers_of(case):
  """N200_W40_C0_k2.0_lo0.005 -> 200, 40, 0, 2.0, 0.005."""
  return [float(part.lstrip('NWCTklonrwu')) for part in case.split('_')]


@pytest.mark.oracle
@pytest.mark.parametrize('case', NEIGHBOURS['k_decay_cosine'])
def test_k_decay_cosine_agrees_with_reference_values(case):
  total, warmup, cooldown, k, floor = numbers_of(case)
  falling = total - warmup - cooldown
  pieces = [
    (schedules.k_decay_cosine_schedule(0.1, floor, falling, k), falling)
  ]
  if warmup:
    pieces.insert(0, (straight(1e-6, 0.1, warmup), warmup))
  expected = NEIGHBOURS['k_decay_cosine'][case]
  rates = read(schedule_chains.joined(pieces), np.arange(len(expected)))
  assert_close(rates, expected)


@pytest.mark.oracle
@pytest.mark.parametrize('case', NEIGHBOURS['wsd'])
def test_wsd_agrees_with_reference_values(case):
  name, kind = case.rsplit('_', 1)
  total, count, share, floor, warmup = map(float, numbers_of(name))
  expected = NEIGHBOURS['wsd'][case]
  periods = schedule_chains.geometric_periods(int(total), int(count), share)
  checkpoints = np.cumsum([steps for steps, _ in periods])
  assert checkpoints.tolist() == expected['checkpoints']
  (first, falling), *rest = periods
  schedule = schedule_chains.wsd_schedule(
    0.1, 0.1 * floor, [(first - warmup, falling), *rest], kind
  )
  if warmup:
    schedule = schedule_chains.joined(
      [(straight(1e-6, 0.1, warmup), warmup), (schedule, total)]
    )
  rates = read(schedule, np.arange(len(expected['values'])))
  assert_close(rates, expected['values'])


# The schedules of `scheduled`, from its formulas: rates of steps 1 to T, relative
# to the base rate. A cool-down of C steps ends at step T.


def scheduled_reference(total, cooldown, exponent, kind, final):
  """(main part t^-exponent, then the cool-down) for t = 1..T."""
  main = [t**-exponent for t in range(1, total - cooldown + 1)]
  r = np.arange(1, cooldown + 1) / cooldown if cooldown else np.zeros(0)
  left = 1 - (np.sqrt(r) if kind == 'sqrt' else r)
  return np.append(main, final + (main[-1] - final) * left)


@pytest.mark.parametrize('kind', ('linear', 'sqrt'))
@pytest.mark.parametrize(
  ('exponent', 'cooldown'), ((0.0, 20), (0.5, 0), (0.5, 30), (1.0, 25))
)
def test_scheduled_agrees_with_its_formulas(exponent, cooldown, kind):
  # WSD (exponent 0), the square root (1/2) and the polynomial (1).
  total, final = 101, 0.01
  last = total - cooldown
  schedule = optax.join_schedules(
    [
      schedules.inverse_power_schedule(1.0, 1, exponent),
      schedules.fall_schedule(last**-exponent, final, max(cooldown, 1), kind),
    ],
    [last if cooldown else math.inf],
  )
  expected = scheduled_reference(total, cooldown, exponent, kind, final)
  assert_close(read(schedule, np.arange(1, total + 1)), expected)


def test_scheduled_polynomial_backward_by_hand():
  # ((T - t) / (T - 1))^2 for t = 1..5.
  schedule = schedules.polynomial_schedule(1.0, 0.0, 2, 4)
  expected = [1.0, 0.5625, 0.25, 0.0625, 0.0]
  np.testing.assert_array_equal(read(schedule, np.arange(5)), expected)


BY_HAND = {
  'polynomial, cycle: N, then 2 N, then 3 N': (
    schedules.polynomial_schedule(1.0, 0.0, 1, 10, cycle=True),
    {0: 1.0, 5: 0.5, 10: 0.0, 11: 0.45, 15: 0.25, 20: 0.0, 21: 0.3, 30: 0.0},
  ),
  'polynomial, up': (
    schedules.polynomial_schedule(0.25, 1.25, 1, 4),
    {0: 0.25, 1: 0.5, 2.5: 0.875, 4: 1.25, 5: 1.25},
  ),
  'cosine': (
    schedules.cosine_schedule(1.0, 0.5, 4),
    {0: 1.0, 2: 0.75, 4: 0.5, 9: 0.5},
  ),
  'cosine annealing comes back': (
    schedules.cosine_annealing_schedule(1.0, 0.0, 4),
    {0: 1.0, 2: 0.5, 4: 0.0, 6: 0.5, 8: 1.0},
  ),
  'k-decay': (
    # (1/2)^2 = 1/4: cos(pi / 4) = 1 / sqrt(2).
    schedules.k_decay_cosine_schedule(1.0, 0.0, 8, 2),
    {0: 1.0, 4: 0.5 + 0.5**1.5, 8: 0.0, 9: 0.0},
  ),
  'staircase': (
    schedules.exponential_schedule(1.0, 4, 0.5, staircase=True),
    {0: 1.0, 3.5: 1.0, 4: 0.5, 7: 0.5, 8: 0.25},
  ),
  'inverse time, squared': (
    # 1 / (1 + 2 t^2 / 8)
    schedules.inverse_time_schedule(1.0, 8, 2.0, 2.0),
    {0: 1.0, 2: 0.5, 4: 0.2, 6: 0.1},
  ),
  'inverse power': (
    schedules.inverse_power_schedule(1.0, 4, 0.5),
    {0: 1.0, 4: 1.0, 16: 0.5, 64: 0.25},
  ),
  'linear fall': (
    schedules.fall_schedule(1.0, 0.5, 4, 'linear'),
    {0: 1.0, 1: 0.875, 4: 0.5, 5: 0.5},
  ),
  'sqrt fall': (
    schedules.fall_schedule(1.0, 0.5, 4, 'sqrt'),
    {0: 1.0, 1: 0.75, 4: 0.5, 5: 0.5},
  ),
  'inverse fall': (
    # 1 / (10 r + (1 - r)) from 1 to 0.1
    schedules.fall_schedule(1.0, 0.1, 9, 'inverse'),
    {0: 1.0, 1: 0.5, 3: 0.25, 9: 0.1, 10: 0.1},
  ),
  'piecewise constant': (
    schedule_chains.piecewise_constant_schedule([1.0, 0.0, 2.0], [3, 5.5]),
    {0: 1.0, 2.9: 1.0, 3: 0.0, 5: 0.0, 5.5: 2.0, 9: 2.0},
  ),
  'multiplicative': (
    schedule_chains.multiplicative_schedule(2.0, lambda t: t / 4, 3),
    {0: 2.0, 0.9: 2.0, 1: 0.5, 2: 0.25, 3: 0.1875, 9: 0.1875},
  ),
  'warm restarts, each twice as long': (
    schedule_chains.cosine_warm_restarts_schedule(1.0, 0.0, [4, 8, 16]),
    {0: 1.0, 2: 0.5, 4: 1.0, 8: 0.5, 12: 1.0, 20: 0.5, 28: 0.0, 30: 0.0},
  ),
  'exp_range': (
    # Amplitude 0.5^t of the way from 0 to 1 over 2 steps.
    schedule_chains.cyclic_schedule(0.0, 1.0, 2, 2, 'exp_range', 0.5),
    {0: 0.0, 1: 0.25, 2: 0.25, 3: 0.0625, 4: 0.0, 6: 2.0**-6},
  ),
  'one cycle, three phases, straight': (
    schedule_chains.one_cycle_schedule(0.5, 1.0, 0.0, 4, 10, True, 'linear'),
    {0: 0.5, 2: 0.75, 4: 1.0, 6: 0.75, 8: 0.5, 9: 0.25, 10: 0.0, 20: 0.0},
  ),
  'WSD goes on from a checkpoint': (
    schedule_chains.wsd_schedule(1.0, 0.5, [(6, 4), (4, 0), (5, 4)], 'linear'),
    {0: 1, 2: 1, 3: 0.875, 5: 0.625, 6: 1, 10: 1, 11: 1, 12: 0.875, 15: 0.5},
  ),
}


@pytest.mark.parametrize('case', BY_HAND)
def test_by_hand(case):
  schedule, values = BY_HAND[case]
  counts = np.asarray(list(values), np.float32)
  assert_close(read(schedule, counts), list(values.values()))


@pytest.mark.parametrize('case', BY_HAND)
def test_counts_of_all_kinds(case):
  """A Python int, an int32, a float, traced or not, and counts below zero."""
  schedule, values = BY_HAND[case]
  for count, value in values.items():
    kinds = [count, np.float32(count), jnp.float32(count)]
    if count == int(count):
      kinds += [int(count), np.int32(count), jnp.int32(count)]
    found = [schedule(kind) for kind in kinds]
    found += [jax.jit(schedule)(kind) for kind in kinds[2::3]]
    np.testing.assert_allclose(found, value, rtol=1e-6, atol=2e-7)
  np.testing.assert_allclose(schedule(-1.5), values[0], rtol=1e-6)


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067))
def test_jumps_are_not_a_step_late(period):
  # A product with the float nearest to 1 / period is below k at k * period.
  steps = np.arange(1, 40, dtype=np.int32) * period
  stairs = schedules.exponential_schedule(1.0, period, 0.5, staircase=True)
  expected = 0.5 ** np.arange(1, 40)
  np.testing.assert_array_equal(read(stairs, steps), expected)
  np.testing.assert_array_equal(read(stairs, steps - 1), 2 * expected)
  saw = schedule_chains.cyclic_schedule(0.25, 1.0, 1, period - 1)
  np.testing.assert_array_equal(read(saw, steps), 0.25)
  assert_close(read(saw, steps + 1), np.ones(39))
  power = schedules.polynomial_schedule(1.0, 0.0, 1, period, cycle=True)
  np.testing.assert_allclose(read(power, steps), 0.0, atol=1e-7)


@pytest.mark.parametrize('power', [0.1, 0.5, 1.0])
def test_a_polynomial_reaches_its_end_in_compiled_programs(power):
  for steps in (41, 47, 55, 83, 123):
    schedule = schedules.polynomial_schedule(1.0, 0.0, power, steps)
    assert jax.jit(schedule)(jnp.int32(steps)) == 0.0


@pytest.mark.parametrize('exponent', [2.0, 7.0, 13.0])
def test_an_inverse_time_decay_stays_a_number(exponent):
  schedule = schedules.inverse_time_schedule(1.0, 1e6**exponent, 9.0, exponent)
  expected = [1.0, 1 / (1 + 9 * 0.5**exponent), 0.1]
  np.testing.assert_allclose(
    read(schedule, np.array([0, 500_000, 1_000_000])), expected, rtol=1e-5
  )


@pytest.mark.parametrize(
  ('total', 'count', 'periods'),
  (
    (1000, 1, [(1000, 100)]),
    (1000, 2, [(500, 50), (500, 50)]),
    (1000, 4, [(125, 12), (125, 12), (250, 25), (500, 50)]),
    # Checkpoints at floor(11 / 4), floor(11 / 2) and 11.
    (11, 3, [(2, 1), (3, 1), (6, 1)]),
    (1, 1, [(1, 0)]),
  ),
)
def test_geometric_periods_by_hand(total, count, periods):
  assert schedule_chains.geometric_periods(total, count, 0.1) == periods


@pytest.mark.parametrize(
  ('make', 'message'),
  (
    (lambda: schedules.fall_schedule(1, 0, 5, 'log'), "kind='log': kind must"),
    (
      lambda: schedules.fall_schedule(1, 0, 5, 'inverse'),
      'end_value=0: end_value must be above 0',
    ),
    (
      lambda: schedule_chains.cyclic_schedule(0, 1, 2, 2, 'saw'),
      "mode='saw': mode must be one of triangular, triangular2, exp_range",
    ),
    (
      lambda: schedule_chains.one_cycle_schedule(0, 1, 0, 3, 9, anneal='cos'),
      "anneal='cos': anneal must be one of cosine, linear",
    ),
    (
      lambda: schedule_chains.one_cycle_schedule(0, 1, 0, 5, 10, True),
      'rise_steps=5: rise_steps must be above 0 and, twice, below 10',
    ),
    (
      lambda: schedule_chains.one_cycle_schedule(0, 1, 0, 0, 10),
      'rise_steps=0: rise_steps must be above 0 and, once, below 10',
    ),
    (
      lambda: schedule_chains.multiplicative_schedule(1.0, float, 200),
      'factor_fn=.*: factor_fn must keep the product .* finite over 200 steps',
    ),
  ),
)
def test_bad_arguments(make, message):
  with pytest.raises(ValueError, match=message):
    make()

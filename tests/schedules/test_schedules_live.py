"""Schedules beside those of torch, Keras and pytorch-accelerated themselves.

Skipped where these are not installed; no test needs them otherwise. What is in
the reference values (tests/data) is not repeated here.
"""

from __future__ import annotations

import numpy as np
import optax
import pytest

from curves import TOLERANCE, read
from reset_cycles.schedules import formulas as schedules
from reset_cycles.schedules import schedule_chains

pytestmark = pytest.mark.oracle
STEPS = 130
PEAK = 0.1


def library(name):
  return pytest.importorskip(
    name, reason=f'{name} is not installed: nothing to compare with'
  )


def assert_same(schedule, expected, count=None):
  """Two roundings to float32 of the largest value: ours, perhaps theirs."""
  expected = np.asarray(expected, np.float64)[:count]
  rates = read(schedule, np.arange(len(expected)))
  bound = 2 * TOLERANCE * expected.max()
  np.testing.assert_allclose(rates, expected, rtol=0, atol=bound)


def of_torch(make, rate=PEAK):
  """The rate in force at each step."""
  torch = library('torch')
  optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
  scheduler = make(torch.optim.lr_scheduler, optimizer)
  rates = []
  for _ in range(STEPS):
    rates.append(optimizer.param_groups[0]['lr'])
    optimizer.step()
    scheduler.step()
  return rates


def test_torch_exp_range():
  expected = of_torch(
    lambda torch, optimizer: torch.CyclicLR(
      optimizer, 0.01, PEAK, 10, 15, 'exp_range', 0.97, cycle_momentum=False
    )
  )
  cyclic = schedule_chains.cyclic_schedule(
    0.01, PEAK, 10, 15, 'exp_range', 0.97
  )
  assert_same(cyclic, expected)


def test_torch_warm_restarts_that_grow():
  expected = of_torch(
    lambda torch, optimizer: torch.CosineAnnealingWarmRestarts(
      optimizer, T_0=10, T_mult=2, eta_min=0.001
    )
  )
  restarts = schedule_chains.cosine_warm_restarts_schedule(
    PEAK, 0.001, [10, 20, 40, 80]
  )
  assert_same(restarts, expected)


@pytest.mark.parametrize('three_phase', (False, True))
@pytest.mark.parametrize('anneal', ('cosine', 'linear'))
def test_torch_one_cycle(three_phase, anneal):
  expected = of_torch(
    lambda torch, optimizer: torch.OneCycleLR(
      optimizer,
      PEAK,
      total_steps=STEPS + 1,
      pct_start=0.4,
      anneal_strategy={'cosine': 'cos'}.get(anneal, anneal),
      three_phase=three_phase,
    )
  )
  total, start = STEPS + 1, PEAK / 25
  one_cycle = schedule_chains.one_cycle_schedule(
    start, PEAK, start / 1e4, 0.4 * total - 1, total - 1, three_phase, anneal
  )
  assert_same(one_cycle, expected)


def test_torch_factor_by_step():
  expected = of_torch(
    lambda torch, optimizer: torch.MultiplicativeLR(
      optimizer, lambda t: 1 - 1 / (t + 9)
    )
  )
  multiplicative = schedule_chains.multiplicative_schedule(
    PEAK, lambda t: 1 - 1 / (t + 9), STEPS
  )
  assert_same(multiplicative, expected)


def test_torch_sequence_of_three():
  expected = of_torch(
    lambda torch, optimizer: torch.SequentialLR(
      optimizer,
      [
        torch.LinearLR(optimizer, 0.1, 1.0, 20),
        torch.ConstantLR(optimizer, 1.0),
        torch.PolynomialLR(optimizer, 50, power=2.0),
      ],
      milestones=[20, 60],
    )
  )
  sequence = schedule_chains.joined(
    [
      (schedules.polynomial_schedule(0.1 * PEAK, PEAK, 1, 20), 20),
      (optax.constant_schedule(PEAK), 40),
      (schedules.polynomial_schedule(PEAK, 0.0, 2.0, 50), 50),
    ]
  )
  assert_same(sequence, expected)


def test_torch_product_of_two():
  expected = of_torch(
    lambda torch, optimizer: torch.ChainedScheduler(
      [
        torch.StepLR(optimizer, 30, 0.5),
        torch.LinearLR(optimizer, 0.2, 1.0, 50),
      ]
    )
  )
  product = schedule_chains.chained_schedule(
    [
      schedules.exponential_schedule(PEAK, 30, 0.5, staircase=True),
      schedules.polynomial_schedule(0.2, 1.0, 1, 50),
    ]
  )
  assert_same(product, expected)


def keras_piecewise(keras):
  # Keras changes the value after a boundary, everyone else at it.
  return keras.PiecewiseConstantDecay([19, 49], [PEAK, 0.05, 0.02])


KERAS = {
  'polynomial, cycle': (
    lambda keras: keras.PolynomialDecay(PEAK, 30, 0.01, 2.0, cycle=True),
    schedules.polynomial_schedule(PEAK, 0.01, 2.0, 30, cycle=True),
  ),
  'inverse time': (
    lambda keras: keras.InverseTimeDecay(PEAK, 30, 0.5),
    schedules.inverse_time_schedule(PEAK, 30, 0.5),
  ),
  'inverse time, staircase': (
    lambda keras: keras.InverseTimeDecay(PEAK, 30, 0.5, staircase=True),
    schedules.inverse_time_schedule(PEAK, 30, 0.5, staircase=True),
  ),
  'exponential, staircase': (
    lambda keras: keras.ExponentialDecay(PEAK, 30, 0.5, staircase=True),
    schedules.exponential_schedule(PEAK, 30, 0.5, staircase=True),
  ),
  'cosine': (
    lambda keras: keras.CosineDecay(PEAK, 100, alpha=0.1),
    schedules.cosine_schedule(PEAK, 0.1 * PEAK, 100),
  ),
  'restarts': (
    lambda keras: keras.CosineDecayRestarts(PEAK, 10, t_mul=2.0, alpha=0.1),
    schedule_chains.cosine_warm_restarts_schedule(
      PEAK, 0.1 * PEAK, [10, 20, 40, 80]
    ),
  ),
  'piecewise': (
    keras_piecewise,
    schedule_chains.piecewise_constant_schedule([PEAK, 0.05, 0.02], [20, 50]),
  ),
}


@pytest.mark.parametrize('case', KERAS)
def test_keras(case):
  make, schedule = KERAS[case]
  keras = make(library('keras').optimizers.schedules)
  assert_same(schedule, [float(keras(t)) for t in range(STEPS)])


def of_pytorch_accelerated(module, name, **arguments):
  found = library(f'pytorch_accelerated.schedulers.{module}')
  torch = library('torch')
  optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
  scheduler = getattr(found, name)(optimizer, **arguments)
  return [scheduler.get_updated_values(t)[0] for t in range(STEPS)]


@pytest.mark.parametrize('k', (0.5, 1.0, 2.0))
def test_pytorch_accelerated_cosine(k):
  total, warmup, cooldown = 120, 20, 10
  expected = of_pytorch_accelerated(
    'cosine_scheduler',
    'CosineLrScheduler',
    total_num_epochs=total,
    num_update_steps_per_epoch=1,
    k_decay=k,
    lr_min=0.005,
    num_warmup_epochs=warmup,
    warmup_starting_lr=0.001,
    num_cooldown_epochs=cooldown,
  )
  falling = total - warmup - cooldown
  cosine = schedule_chains.joined(
    [
      (schedules.polynomial_schedule(0.001, PEAK, 1, warmup), warmup),
      (schedules.k_decay_cosine_schedule(PEAK, 0.005, falling, k), falling),
    ]
  )
  # Theirs drops to the floor as many steps early as the warm-up has.
  assert_same(cosine, expected, count=total - cooldown - warmup)
  assert expected[total - cooldown - warmup] == 0.005
  assert float(cosine(total - cooldown - warmup)) > 0.006


@pytest.mark.parametrize(('root', 'kind'), ((True, 'sqrt'), (False, 'inverse')))
@pytest.mark.parametrize('count', (1, 3))
def test_pytorch_accelerated_wsd(count, root, kind):
  # Of the numbers of checkpoints these two are where they are said to be.
  expected = of_pytorch_accelerated(
    'wsd_scheduler',
    'WSDLrScheduler',
    total_steps=120,
    num_warmup_steps=0,
    decay_phase_ratio=0.2,
    lr_min=0.1,
    use_inverse_sqrt_decay=root,
    num_checkpoints=count,
  )
  wsd = schedule_chains.wsd_schedule(
    PEAK,
    0.1 * PEAK,
    schedule_chains.geometric_periods(120, count, 0.2),
    kind,
  )
  assert_same(wsd, expected, count=120)

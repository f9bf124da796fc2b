"""Shapes beside the schedules of torch, Keras and pytorch-accelerated themselves.

Skipped where these are not installed; no test needs them otherwise. What is in
the reference values (tests/data) is not repeated here.
"""

from __future__ import annotations

import numpy as np
import pytest

from curves import TOLERANCE, read
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase

pytestmark = pytest.mark.oracle
STEPS = 130
PEAK = 0.1


def library(name):
  return pytest.importorskip(
    name, reason=f'{name} is not installed: nothing to compare with'
  )


def assert_same(steps, shape, expected, count=None):
  """Two roundings to float32 of the largest value: ours, perhaps theirs.

  Args:
    steps: length of the phase.
    shape: as in a configuration, for the peak of 0.1.
    expected: rates of the steps from 0 on.
    count: how many of them are compared, if not all.
  """
  schedule = DECAYS.make(DECAYS.read('shape', shape), Phase(steps))
  expected = np.asarray(expected, np.float64)[:count]
  rates = PEAK * read(schedule, np.arange(len(expected)))
  bound = 2 * TOLERANCE * expected.max()
  np.testing.assert_allclose(rates, expected, rtol=0, atol=bound)


def polynomial(**parameters):
  return {'name': 'polynomial', **parameters}


def in_turn(shapes, at):
  return {'name': 'sequential', 'shapes': shapes, 'at': at}


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
  # 6 periods of 25 steps, the last one cut off.
  cyclic = {
    'name': 'cyclic',
    'periods': 6,
    'rise': 0.4,
    'floor': 0.1,
    'mode': 'exp_range',
    'gamma': 0.97**150,
  }
  assert_same(150, cyclic, expected)


def test_torch_warm_restarts_that_grow():
  expected = of_torch(
    lambda torch, optimizer: torch.CosineAnnealingWarmRestarts(
      optimizer, T_0=10, T_mult=2, eta_min=0.001
    )
  )
  restarts = {
    'name': 'cosine_warm_restarts',
    'periods': 4,
    'multiplier': 2,
    'floor': 0.01,
  }
  assert_same(10 + 20 + 40 + 80, restarts, expected)


@pytest.mark.parametrize('three_phase', (False, True))
@pytest.mark.parametrize('anneal', ('cosine', 'linear'))
def test_torch_one_cycle(three_phase, anneal):
  # Torch has its maximum at step p * n - 1 and its end at n - 1.
  expected = of_torch(
    lambda torch, optimizer: torch.OneCycleLR(
      optimizer,
      PEAK,
      total_steps=STEPS + 1,
      pct_start=53 / 131,
      anneal_strategy={'cosine': 'cos'}.get(anneal, anneal),
      three_phase=three_phase,
    )
  )
  one_cycle = {
    'name': 'one_cycle',
    'rise': 0.4,
    'three_phase': three_phase,
    'anneal': anneal,
  }
  assert_same(STEPS, one_cycle, expected)


def test_torch_factor_by_step():
  expected = of_torch(
    lambda torch, optimizer: torch.MultiplicativeLR(
      optimizer, lambda t: 1 - 1 / (t + 9)
    )
  )
  shape = {'name': 'multiplicative', 'function': lambda t: 1 - 1 / (t + 9)}
  assert_same(STEPS, shape, expected)


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
  # The last part has 50 of 100 steps, and stays at its end.
  parts = [
    polynomial(start=0.1, end=1.0),
    'constant',
    polynomial(power=2.0, share=0.5),
  ]
  assert_same(160, in_turn(parts, [0.125, 0.375]), expected)


def test_torch_product_of_two():
  expected = of_torch(
    lambda torch, optimizer: torch.ChainedScheduler(
      [
        torch.StepLR(optimizer, 30, 0.5),
        torch.LinearLR(optimizer, 0.2, 1.0, 50),
      ]
    )
  )
  stairs = {'name': 'exponential', 'factor': 0.5, 'staircase': True}
  shapes = [
    {**stairs, 'share': 0.2},
    polynomial(start=0.2, end=1.0, share=0.33334),
  ]
  assert_same(150, {'name': 'chained', 'shapes': shapes}, expected)


KERAS = {
  'polynomial, cycle': (
    lambda keras: keras.PolynomialDecay(PEAK, 30, 0.01, 2.0, cycle=True),
    polynomial(power=2.0, end=0.1, share=0.2, cycle=True),
  ),
  'linear': (
    lambda keras: keras.PolynomialDecay(PEAK, 150, 0.01),
    {'name': 'linear', 'floor': 0.1},
  ),
  'inverse time': (
    lambda keras: keras.InverseTimeDecay(PEAK, 30, 0.5),
    {'name': 'inverse_time', 'rate': 0.5, 'share': 0.2},
  ),
  'inverse time, staircase': (
    lambda keras: keras.InverseTimeDecay(PEAK, 30, 0.5, staircase=True),
    {'name': 'inverse_time', 'rate': 0.5, 'share': 0.2, 'staircase': True},
  ),
  'exponential, staircase': (
    lambda keras: keras.ExponentialDecay(PEAK, 30, 0.5, staircase=True),
    {'name': 'exponential', 'factor': 0.5, 'share': 0.2, 'staircase': True},
  ),
  'cosine': (
    lambda keras: keras.CosineDecay(PEAK, 150, alpha=0.1),
    {'name': 'cosine', 'floor': 0.1},
  ),
  'restarts': (
    lambda keras: keras.CosineDecayRestarts(PEAK, 10, t_mul=2.0, alpha=0.1),
    {
      'name': 'cosine_warm_restarts',
      'periods': 4,
      'multiplier': 2,
      'floor': 0.1,
    },
  ),
  'piecewise': (
    # Keras changes the value after a boundary, everyone else at it.
    lambda keras: keras.PiecewiseConstantDecay([14, 44], [PEAK, 0.05, 0.02]),
    {'name': 'piecewise_constant', 'values': [1, 0.5, 0.2], 'at': [0.1, 0.3]},
  ),
}


@pytest.mark.parametrize('case', KERAS)
def test_keras(case):
  make, shape = KERAS[case]
  keras = make(library('keras').optimizers.schedules)
  assert_same(150, shape, [float(keras(t)) for t in range(STEPS)])


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
  cosine = {
    'name': 'k_decay_cosine',
    'k': k,
    'floor': 0.05,
    'cooldown': cooldown / (total - warmup),
  }
  rise = polynomial(start=0.01, end=1.0)
  # 20 of 120 steps: the share is written as the next decimal above it.
  shape = in_turn([rise, cosine], [0.16667])
  # Theirs drops to the floor as many steps early as the warm-up has.
  early = total - cooldown - warmup
  assert_same(total, shape, expected, count=early)
  assert expected[early] == 0.005
  ours = DECAYS.make(DECAYS.read('shape', shape), Phase(total))
  assert PEAK * float(ours(early)) > 0.006


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
  wsd = {'name': 'wsd', 'checkpoints': count, 'fall': kind, 'floor': 0.1}
  assert_same(120, wsd, expected, count=120)

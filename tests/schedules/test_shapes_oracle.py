"""Shapes of the registry against torch, Cerebras and pytorch-accelerated.

A schedule is written as in a configuration, in shares of the phase and of the
peak, so that the way from shares to steps is compared too. The tolerance is
that of `curves`, where it is derived, times the largest rate.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from curves import assert_close, read
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase
from reset_cycles.schedules.warmups import WARMUPS
from reset_cycles.settings.named import name_of

DATA = pathlib.Path(__file__).parents[1] / 'data'
ORACLE = json.loads((DATA / 'torch_cerebras.json').read_text())
NEIGHBOURS = json.loads((DATA / 'neighbour_schedules.json').read_text())

KINDS = {'warmup': WARMUPS, 'decay': DECAYS}

# Names that no neighbour has, and why.
WITHOUT_ORACLE = {
  'warmup': {},
  'decay': {
    'holding_exponential': "the thesis' own, which holds the peak first: `exp_hold` "
    'of thesis_chain.json, compared in test_lr_schedule',
    'holding_linear': "the thesis' own, which holds the peak first: `linear_hold` of "
    'thesis_chain.json, compared in test_lr_schedule',
  },
}


class Case(NamedTuple):
  """peak * shape, over so many steps: a neighbour's schedule as a shape."""

  peak: float
  steps: int
  shape: Any  # as in a configuration


def falling(power, end):
  """A power of the share, over 100 of 200 steps."""
  return Case(
    0.1, 200, {'name': 'polynomial', 'power': power, 'end': end, 'share': 0.5}
  )


def halved(share, **parameters):
  """A factor of 1/2 per share of 200 steps."""
  shape = {'name': 'exponential', 'factor': 0.5, 'share': share, **parameters}
  return Case(0.1, 200, shape)


def slower(exponent, share, staircase):
  """1 / (1 + 0.5 * (t / (200 * share))^exponent)"""
  shape = {
    'name': 'inverse_time',
    'rate': 0.5,
    'exponent': exponent,
    'share': share,
    'staircase': staircase,
  }
  return Case(0.1, 200, shape)


def triangles(mode):
  """8 periods of 25 steps, 10 of them up."""
  shape = {
    'name': 'cyclic',
    'periods': 8,
    'rise': 0.4,
    'floor': 0.1,
    'mode': mode,
  }
  return Case(0.1, 200, shape)


def one_cycle(**parameters):
  """Step 0 to step 99, the peak at step 29, as torch counts 30 % of 100."""
  return Case(0.1, 99, {'name': 'one_cycle', 'rise': 29 / 99, **parameters})


def rise(start=0.0, share=1.0):
  """A straight line up to the peak, which then stays."""
  return {'name': 'polynomial', 'start': start, 'end': 1.0, 'share': share}


def in_turn(shapes_in_turn, at, **parameters):
  return {
    'name': 'sequential',
    'shapes': shapes_in_turn,
    'at': at,
    **parameters,
  }


def product(*factors):
  return {'name': 'chained', 'shapes': list(factors)}


def of_steps(function):
  """A function of the step, in 200 of them."""
  return {'name': 'lambda', 'function': lambda share: function(200 * share)}


ONE_CYCLES = {
  'OneCycleLR_cos_2phase': one_cycle(),
  'OneCycleLR_cos_3phase': one_cycle(three_phase=True),
  'OneCycleLR_linear_2phase': one_cycle(anneal='linear'),
}
CYCLIC = {
  'CyclicLR_triangular': triangles('triangular'),
  'CyclicLR_triangular2': triangles('triangular2'),
}
STEP = halved(0.1, staircase=True)
MULTI_STEP = Case(
  0.1, 200, {'name': 'step', 'factor': 0.3, 'at': [0.05, 0.15, 0.3]}
)
ANNEALING = Case(
  0.1, 200, {'name': 'cosine_annealing', 'share': 0.25, 'floor': 0.01}
)
MULTIPLICATIVE = Case(
  0.1, 200, {'name': 'multiplicative', 'function': lambda step: 0.95}
)
LAMBDA = Case(0.1, 200, of_steps(lambda step: 0.95**step))
INVERSE_ROOT = {'name': 'inverse_power', 'hold': 0.05}

CEREBRAS = {
  'ConstantLR': Case(0.05, 200, 'constant'),
  'PolynomialLR_p1.0': falling(1, 0.1),
  'PolynomialLR_p2.0': falling(2, 0.1),
  'PolynomialLR_p0.5': falling(0.5, 0.1),
  'LinearLR_warmup': Case(0.1, 200, rise(share=0.1)),
  'ExponentialLR_smooth': halved(0.15),
  'ExponentialLR_staircase': halved(0.15, staircase=True),
  'InverseExponentialTimeDecayLR_e1_smooth': slower(1, 0.15, False),
  'InverseExponentialTimeDecayLR_e1_staircase': slower(1, 0.15, True),
  # There the 30 steps are not raised to the power, only the time is.
  'InverseExponentialTimeDecayLR_e2_staircase': slower(2, 30**0.5 / 200, True),
  # scale / sqrt(10), held for 10 steps.
  'InverseSquareRootDecayLR': Case(0.1 * 0.1**0.5, 200, INVERSE_ROOT),
  'InverseSquareRootDecayLR_init1': Case(0.3 * 0.1**0.5, 200, INVERSE_ROOT),
  'CosineDecayLR': Case(0.1, 100, {'name': 'cosine', 'floor': 0.1}),
  'StepLR': STEP,
  'MultiStepLR': MULTI_STEP,
  'PiecewiseConstantLR': Case(
    0.1,
    200,
    {'name': 'piecewise_constant', 'values': [1, 0.5, 0.2], 'at': [0.1, 0.25]},
  ),
  'CosineAnnealingLR': ANNEALING,
  'MultiplicativeLR': MULTIPLICATIVE,
  # Two functions, of which each is multiplied with the initial rate.
  'LambdaLR_default': Case(
    0.1**2, 200, product(of_steps(lambda step: step / 30), LAMBDA.shape)
  ),
  'LambdaLR_0.95': LAMBDA,
  **CYCLIC,
  **ONE_CYCLES,
  'SequentialLR_linwarm_cosine': Case(
    0.1, 100, in_turn([rise(), 'cosine'], [0.1])
  ),
  # A third of 120 steps is written as the next decimal above it: parts are
  # rounded down, and 0.3333 would be 39 steps.
  'SequentialLR_3cycles': Case(
    0.1,
    120,
    in_turn(
      [in_turn([rise(), 'cosine'], [0.2])] * 3,
      [0.3334, 0.6667],
      peaks=[1, 1.5, 0.5],
    ),
  ),
}

TORCH = {
  'ConstantLR': Case(
    0.1, 200, {'name': 'piecewise_constant', 'values': [0.5, 1], 'at': [0.1]}
  ),
  'LinearLR': Case(0.1, 200, rise(start=0.1, share=0.1)),
  'PolynomialLR_p1.0': Case(0.1, 100, 'linear'),
  'PolynomialLR_p2.0': falling(2, 0),
  'PolynomialLR_p0.5': falling(0.5, 0),
  # A factor per step, which is a 200th.
  'ExponentialLR': Case(
    0.1, 200, {'name': 'exponential', 'factor': 0.97, 'share': 0.005}
  ),
  'StepLR': STEP,
  'MultiStepLR': MULTI_STEP,
  'CosineAnnealingLR': ANNEALING,
  'CosineAnnealingWarmRestarts_T25': Case(
    0.1, 200, {'name': 'cosine_warm_restarts', 'periods': 8, 'floor': 0.01}
  ),
  **CYCLIC,
  **ONE_CYCLES,
  'LambdaLR': LAMBDA,
  'MultiplicativeLR': MULTIPLICATIVE,
  # 10 steps up, 90 of the other 240 down, and up again.
  'SequentialLR_linear10_cosine90': Case(
    0.1,
    250,
    in_turn(
      [rise(0.001), {'name': 'cosine_annealing', 'share': 0.375}], [0.04]
    ),
  ),
  'ChainedScheduler_const_exp': Case(
    0.1,
    200,
    product(
      {'name': 'piecewise_constant', 'values': [0.1, 1], 'at': [0.1]},
      {'name': 'exponential', 'factor': 0.9, 'share': 0.005},
    ),
  ),
}
SCHEDULERS = {'cerebras': CEREBRAS, 'torch': TORCH}

# Each warm-up, and the scheduler that it is. One that falls is read backwards,
# from the last step of the warm-up on.
WARMUP_CASES = (
  ('cerebras', 'LinearLR_warmup', Case(0.1, 20, 'linear')),
  ('torch', 'LinearLR', Case(0.1, 20, {'name': 'linear', 'start': 0.1})),
  (
    'cerebras',
    'CosineDecayLR',
    Case(0.1, 100, {'name': 'cosine', 'start': 0.1}),
  ),
  # 0.5^(t / 30) at t = 120.
  (
    'cerebras',
    'ExponentialLR_smooth',
    Case(0.1, 120, {'name': 'exponential', 'start': 0.5**4}),
  ),
  *(
    (
      'cerebras',
      f'PolynomialLR_p{power}',
      Case(0.1, 100, {'name': 'polynomial', 'power': power, 'start': 0.1}),
    )
    for power in (0.5, 1.0, 2.0)
  ),
  ('cerebras', 'ConstantLR', Case(0.05, 100, 'none')),
)


def numbers_of(name):
  """N200_W40_C0_k2.0_lo0.005 -> 200, 40, 0, 2.0, 0.005."""
  return map(float, re.findall(r'[A-Za-z]([0-9][0-9.e-]*)', name))


def k_decay_of(name):
  total, warmup, cooldown, k, floor = numbers_of(name)
  cosine = {
    'name': 'k_decay_cosine',
    'k': k,
    'floor': floor / 0.1,
    'cooldown': cooldown / (total - warmup),
  }
  if warmup == 0:
    return Case(0.1, int(total), cosine)
  return Case(
    0.1, int(total), in_turn([rise(1e-6 / 0.1), cosine], [warmup / total])
  )


def wsd_of(name):
  total, checkpoints, share, floor, warmup = numbers_of(name)
  wsd = {
    'name': 'wsd',
    'checkpoints': int(checkpoints),
    'decay': share,
    'fall': name.rsplit('_', 1)[1],
    'floor': floor,
  }
  if warmup == 0:
    return Case(0.1, int(total), wsd)
  # A factor until the first period is stable, so that checkpoints stay.
  return Case(0.1, int(total), product(rise(1e-6 / 0.1, warmup / total), wsd))


K_DECAY = {name: k_decay_of(name) for name in NEIGHBOURS['k_decay_cosine']}
WSD = {name: wsd_of(name) for name in NEIGHBOURS['wsd']}


def check(case, expected, kind='decay', counts=None):
  shape = KINDS[kind].read('shape', case.shape)
  unit = KINDS[kind].make(shape, Phase(case.steps))
  counts = np.arange(len(expected)) if counts is None else counts
  rates = case.peak * read(unit, counts)
  assert_close(rates, expected, np.max(np.abs(expected)))


def test_every_scheduler_is_written_as_a_shape():
  for library, cases in SCHEDULERS.items():
    assert set(cases) == set(ORACLE[library])
  assert (len(K_DECAY), len(WSD)) == (18, 24)


def test_every_name_has_an_oracle_or_a_reason():
  tables = (CEREBRAS, TORCH, K_DECAY, WSD)
  decays = [case for table in tables for case in table.values()]
  compared = {'warmup': [case for *_, case in WARMUP_CASES], 'decay': decays}
  for kind, cases in compared.items():
    written = [KINDS[kind].read('shape', case.shape) for case in cases]
    names = set(map(name_of, written))
    assert names.isdisjoint(WITHOUT_ORACLE[kind])
    assert names | set(WITHOUT_ORACLE[kind]) == set(KINDS[kind])


@pytest.mark.oracle
@pytest.mark.parametrize(
  ('library', 'name'),
  [(library, name) for library, cases in SCHEDULERS.items() for name in cases],
)
def test_shapes_agree_with_torch_and_cerebras(library, name):
  expected = ORACLE[library][name]['lr']
  if name.startswith('OneCycle'):
    # Beyond its end the one of Cerebras rises again, and torch's is an error.
    expected = expected[:100]
  check(SCHEDULERS[library][name], expected)


@pytest.mark.oracle
@pytest.mark.parametrize('name', K_DECAY)
def test_k_decay_cosine_agrees_as_a_shape(name):
  check(K_DECAY[name], NEIGHBOURS['k_decay_cosine'][name])


@pytest.mark.oracle
@pytest.mark.parametrize('name', WSD)
def test_wsd_agrees_as_a_shape(name):
  check(WSD[name], NEIGHBOURS['wsd'][name]['values'])


@pytest.mark.oracle
@pytest.mark.parametrize(('library', 'name', 'case'), WARMUP_CASES)
def test_warmups_agree_with_torch_and_cerebras(library, name, case):
  steps = np.arange(case.steps + 1)
  rates = ORACLE[library][name]['lr'][: len(steps)]
  backwards = rates[0] > rates[-1]
  check(case, rates, 'warmup', steps[::-1] if backwards else steps)

"""Schedules of torch, Cerebras and pytorch-accelerated, each as a shape.

A schedule is written in shares of the phase and of the peak, so that the way
from shares to steps is compared, too. Its values are in tests/data.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any, NamedTuple

from reset_cycles.core.schedules import Constant, Cosine
from reset_cycles.shapes.composed import (
  WSD,
  Chained,
  CosineWarmRestarts,
  Multiplicative,
  OneCycle,
  PiecewiseConstant,
  Sequential,
  Triangular,
)
from reset_cycles.shapes.simple import (
  CosineAnnealing,
  Exponential,
  InversePower,
  InverseTime,
  KDecayCosine,
  Lambda,
  Linear,
  Polynomial,
  Staircase,
)

DATA = pathlib.Path(__file__).parents[1] / 'data'
ORACLE = json.loads((DATA / 'torch_cerebras.json').read_text())
NEIGHBOURS = json.loads((DATA / 'neighbour_schedules.json').read_text())


class Case(NamedTuple):
  """peak * shape, over so many steps: a neighbour's schedule as a shape."""

  peak: float
  steps: int
  shape: Any


def falling(power, end):
  """A power of the share, over 100 of 200 steps."""
  return Case(0.1, 200, Polynomial(power=power, end=end, share=0.5))


def halved(share, staircase=False):
  """A factor of 1/2 per share of 200 steps."""
  return Case(0.1, 200, Exponential(0.5, share, staircase))


def slower(exponent, share, staircase):
  """1 / (1 + 0.5 * (t / (200 * share))^exponent)"""
  return Case(0.1, 200, InverseTime(0.5, exponent, share, staircase))


def triangles(mode):
  """8 periods of 25 steps, 10 of them up."""
  return Case(0.1, 200, Triangular(8, rise=0.4, floor=0.1, mode=mode))


def one_cycle(**fields):
  """Step 0 to step 99, the peak at step 29, as torch counts 30 % of 100."""
  return Case(0.1, 99, OneCycle(rise=29 / 99, **fields))


def rise(start=0.0, share=1.0):
  """A straight line up to the peak, which then stays."""
  return Polynomial(start=start, end=1.0, share=share)


def of_steps(function):
  """A function of the step, in 200 of them."""
  return Lambda(lambda share: function(200 * share))


LAMBDA = Case(0.1, 200, of_steps(lambda step: 0.95**step))
INVERSE_ROOT = InversePower(hold=0.05)

# What both have is compared with torch's.
CEREBRAS = {
  'ConstantLR': Case(0.05, 200, Constant()),
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
  'CosineDecayLR': Case(0.1, 100, Cosine(floor=0.1)),
  'PiecewiseConstantLR': Case(
    0.1, 200, PiecewiseConstant(values=(1, 0.5, 0.2), at=(0.1, 0.25))
  ),
  'MultiplicativeLR': Case(0.1, 200, Multiplicative((0.95,) * 200)),
  # Two functions, of which each is multiplied with the initial rate.
  'LambdaLR_default': Case(
    0.1**2, 200, Chained((of_steps(lambda step: step / 30), LAMBDA.shape))
  ),
  'SequentialLR_linwarm_cosine': Case(
    0.1, 100, Sequential((rise(), Cosine()), at=(0.1,))
  ),
  'SequentialLR_3cycles': Case(
    0.1,
    120,
    Sequential(
      (Sequential((rise(), Cosine()), at=(0.2,)),) * 3,
      at=(1 / 3, 2 / 3),
      peaks=(1, 1.5, 0.5),
    ),
  ),
}

TORCH = {
  'LinearLR': Case(0.1, 200, rise(start=0.1, share=0.1)),
  'PolynomialLR_p1.0': Case(0.1, 100, Linear()),
  'PolynomialLR_p2.0': falling(2, 0),
  # A factor per step, which is a 200th.
  'ExponentialLR': Case(0.1, 200, Exponential(factor=0.97, share=0.005)),
  'StepLR': halved(0.1, staircase=True),
  'MultiStepLR': Case(0.1, 200, Staircase(factor=0.3, at=(0.05, 0.15, 0.3))),
  'CosineAnnealingLR': Case(0.1, 200, CosineAnnealing(share=0.25, floor=0.01)),
  'CosineAnnealingWarmRestarts_T25': Case(
    0.1, 200, CosineWarmRestarts(periods=8, floor=0.01)
  ),
  'CyclicLR_triangular': triangles('triangular'),
  'CyclicLR_triangular2': triangles('triangular2'),
  'OneCycleLR_cos_2phase': one_cycle(),
  'OneCycleLR_cos_3phase': one_cycle(three_phase=True),
  'OneCycleLR_linear_2phase': one_cycle(anneal='linear'),
  'LambdaLR': LAMBDA,
  # Of a constant factor.
  'MultiplicativeLR': LAMBDA,
  # 10 steps up, 90 of the other 240 down, and up again.
  'SequentialLR_linear10_cosine90': Case(
    0.1, 250, Sequential((rise(0.001), CosineAnnealing(share=0.375)), (0.04,))
  ),
  'ChainedScheduler_const_exp': Case(
    0.1,
    200,
    Chained(
      (
        PiecewiseConstant(values=(0.1, 1), at=(0.1,)),
        Exponential(factor=0.9, share=0.005),
      )
    ),
  ),
}


def numbers_of(name):
  """N200_W40_C0_k2.0_lo0.005 -> 200, 40, 0, 2.0, 0.005."""
  return map(float, re.findall(r'[A-Za-z]([0-9][0-9.e-]*)', name))


def k_decay_of(name):
  total, warmup, cooldown, k, floor = numbers_of(name)
  cosine = KDecayCosine(k, floor / 0.1, cooldown / (total - warmup))
  if warmup == 0:
    return Case(0.1, int(total), cosine)
  parts = (rise(1e-6 / 0.1), cosine)
  return Case(0.1, int(total), Sequential(parts, at=(warmup / total,)))


def wsd_of(name):
  total, checkpoints, share, floor, warmup = numbers_of(name)
  fall = name.rsplit('_', 1)[1]
  wsd = WSD(int(checkpoints), share, fall, floor)
  if checkpoints == 4:  # there, whole steps: 12 of the first two periods' 125
    early, late = (WSD(1, s, fall, floor) for s in (12 / 125, share))
    wsd = Sequential((early, early, late, late), at=(0.125, 0.25, 0.5))
  if warmup == 0:
    return Case(0.1, int(total), wsd)
  # A factor until the first period is stable, so that checkpoints stay.
  first = rise(1e-6 / 0.1, warmup / total)
  return Case(0.1, int(total), Chained((first, wsd)))


CASES = (
  *((CEREBRAS[n], ORACLE['cerebras'][n]['lr'], n) for n in CEREBRAS),
  *((TORCH[n], ORACLE['torch'][n]['lr'], n) for n in TORCH),
  *((k_decay_of(n), lr, n) for n, lr in NEIGHBOURS['k_decay_cosine'].items()),
  *((wsd_of(n), row['values'], n) for n, row in NEIGHBOURS['wsd'].items()),
)

"""Weight decay by a shape over each cycle, as the schedulers of its names have it.

Their formulas, in steps t of 200, are written from the pages of Cerebras'
weight_decay_scheduler and of pytorch-accelerated's StepWdScheduler.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from reset_cycles.core import clock as clock_lib
from reset_cycles.core.plan import jax_lr_schedule
from reset_cycles.core.schedules import Constant, Cooldown, Cosine, Cycle
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.optimizers.momentum import NadamW, Nesterov
from reset_cycles.optimizers.schedule_free import ScheduleFreeAdamW
from reset_cycles.optimizers.step import Step
from reset_cycles.schedule_params import SOFT_RESET, THESIS
from reset_cycles.shapes import composed as composed_shapes
from reset_cycles.shapes import simple as shapes
from reset_cycles.views import settings_json

STEPS = 200
WARMUP = 0.2  # of a cycle; the shape takes no notice of it
START = np.float32([1.0, -2.0, 0.5])


def up_and_down(t):
  """From .1 up to 1 in 20 steps and down to .1 in 30."""
  t %= 50
  return 0.1 + 0.9 * (t / 20 if t < 20 else (50 - t) / 30)


def one_cycle(t):
  """Cosines from .04 up to 1 at step 60 and down to .04 / 10,000."""
  if t < 60:
    return 0.04 + 0.96 * (1 - math.cos(math.pi * t / 60)) / 2
  way = (1 + math.cos(math.pi * (t - 60) / 140)) / 2
  return 4e-6 + (1 - 4e-6) * way


# The shape, and the factor on the initial weight decay at step t.
SCHEDULERS = {
  'ConstantWD': (Constant(), lambda t: 1.0),
  'PolynomialWD': (
    shapes.Polynomial(end=0.2, power=2, share=0.5),
    lambda t: 0.2 + 0.8 * (1 - min(t, 100) / 100) ** 2,
  ),
  'LinearWD': (shapes.Linear(floor=0.2), lambda t: 1 - 0.8 * t / 200),
  'ExponentialWD': (
    shapes.Exponential(0.5, share=0.25, staircase=True),
    lambda t: 0.5 ** (t // 50),
  ),
  'InverseExponentialTimeDecayWD': (
    shapes.InverseTime(rate=0.5, exponent=2, share=0.25),
    lambda t: 1 / (1 + 0.5 * (t / 50) ** 2),
  ),
  'InverseSquareRootDecayWD': (
    shapes.InversePower(hold=0.05),
    lambda t: math.sqrt(10 / max(t, 10)),
  ),
  'CosineDecayWD': (
    Cosine(floor=0.1),
    lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 200)) / 2,
  ),
  'SequentialWD': (
    composed_shapes.Sequential((Constant(), shapes.Linear()), at=(0.5,)),
    lambda t: 1.0 if t < 100 else (200 - t) / 100,
  ),
  'PiecewiseConstantWD': (
    composed_shapes.PiecewiseConstant((1, 0.5, 2), at=(0.25, 0.75)),
    lambda t: 1.0 if t < 50 else 0.5 if t < 150 else 2.0,
  ),
  'MultiStepWD': (
    shapes.Step(0.3, at=(0.25, 0.5)),
    lambda t: 0.3 ** ((t >= 50) + (t >= 100)),
  ),
  'StepWD': (
    shapes.Exponential(0.9, share=0.05, staircase=True),
    lambda t: 0.9 ** (t // 10),
  ),
  'CosineAnnealingWD': (
    shapes.CosineAnnealing(share=0.25, floor=0.1),
    lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 50)) / 2,
  ),
  'LambdaWD': (
    shapes.Lambda(lambda x: 0.99 ** (200 * x)),
    lambda t: 0.99**t,
  ),
  'CosineAnnealingWarmRestartsWD': (
    composed_shapes.CosineWarmRestarts(periods=4),
    lambda t: (1 + math.cos(math.pi * (t % 50) / 50)) / 2,
  ),
  'MultiplicativeWD': (
    shapes.Exponential(0.98, share=1 / 200),
    lambda t: 0.98**t,
  ),
  'ChainedWD': (
    composed_shapes.Chained((shapes.Linear(), Cosine())),
    lambda t: (1 - t / 200) * (1 + math.cos(math.pi * t / 200)) / 2,
  ),
  'CyclicWD': (
    composed_shapes.Triangular(periods=4, rise=0.4, floor=0.1),
    up_and_down,
  ),
  'OneCycleWD': (composed_shapes.OneCycle(), one_cycle),
  # wd * gamma after every n updates; it grows.
  'StepWdScheduler': (
    composed_shapes.PiecewiseConstant(
      tuple(1.1**i for i in range(5)), at=(0.2, 0.4, 0.6, 0.8)
    ),
    lambda t: 1.1 ** (t // 40),
  ),
}


def planned(*decays, steps=STEPS):
  """Cycles with these shapes of the weight decay."""
  cycles = [Cycle(0.05, warmup_factor=WARMUP, weight_decay=d) for d in decays]
  return jax_lr_schedule(steps, cycles, 1.0).cycles


def words(cycles, step, setting=0):
  start = sum(cycle.steps for cycle in cycles[:setting])
  end = start + cycles[setting].steps
  clock = clock_lib.anchored_clock(start, 0.0, end, setting, cycles)
  return clock_lib.packed(clock._replace(count=np.int32(step)))


@pytest.mark.parametrize('name', SCHEDULERS)
def test_every_scheduler_of_the_weight_decay(name):
  shape, formula = SCHEDULERS[name]
  cycles = planned(Cosine(), shape, steps=2 * STEPS)
  factor = jax.jit(lambda words: clock_lib.weight_decay(words, cycles))
  steps = range(0, STEPS, 7)
  found = [float(factor(words(cycles, STEPS + t, 1))) for t in steps]
  expected = [formula(t) for t in steps]
  np.testing.assert_allclose(found, expected, rtol=3e-5, atol=1e-6)
  assert len(set(expected)) > 1 or name == 'ConstantWD'


def trained(optimizer, cycles, steps=STEPS):
  """Parameters after each step, and how many leaves the state has."""
  begun = words(cycles, 0), np.zeros(4, np.int32)
  tx = clocked(optimizer.build, cycles, begun)
  params = jnp.asarray(START)
  state, update = tx.init(params), jax.jit(tx.update)
  history = []
  for grad in gradients(steps):
    updates, state = update(grad, state, params)
    params = optax.apply_updates(params, updates)
    history.append(np.asarray(params))
  return history, len(jax.tree_util.tree_leaves(state))


def gradients(steps=STEPS):
  rng = np.random.default_rng(3)
  return rng.normal(size=(steps, START.size)).astype(np.float32) * 0.3


@pytest.mark.parametrize('make', (AdamW, NadamW))
def test_adam_with_a_decay_that_falls_agrees_with_its_twin(make):
  cycles = planned(Cosine(floor=0.1))
  optimizer = make(0.25, 0.9, weight_decay=2.0)
  history, _ = trained(optimizer, cycles)
  rates = [
    reference.cycle_rate(t, STEPS, cycles[0].cycle) for t in range(STEPS)
  ]
  formula = SCHEDULERS['CosineDecayWD'][1]
  decays = [2.0 * formula(t) for t in range(STEPS)]
  expected = reference.adamw(
    *(START, gradients(), rates, optimizer),
    decays=decays,
    nesterov=make is NadamW,
  )
  np.testing.assert_allclose(history, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
  'optimizer',
  (
    AdamW(weight_decay=2.0),
    NadamW(weight_decay=2.0),
    Nesterov(weight_decay=2.0),
    ScheduleFreeAdamW(weight_decay=2.0),
    EMA(AdamW(weight_decay=2.0)),
  ),
)
def test_half_of_the_factor_is_half_of_the_decay(optimizer):
  """In every optimizer; and no array comes to the state."""
  half = composed_shapes.PiecewiseConstant((0.5, 0.5), at=(0.5,))
  found, leaves = trained(optimizer, planned(half), 20)
  one = {'weight_decay': 1.0}
  inner = getattr(optimizer, 'inner', None)
  if inner is not None:
    one = {'inner': dataclasses.replace(inner, **one)}
  halved = dataclasses.replace(optimizer, **one)
  expected, plain = trained(halved, planned(Constant()), 20)
  np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
  assert leaves == plain
  other, _ = trained(optimizer, planned(Constant()), 20)
  assert np.abs(np.subtract(other, found)).max() > 1e-3


@pytest.mark.parametrize('settings', (THESIS, SOFT_RESET))
def test_a_constant_decay_is_the_number_one(settings):
  """No operation on an array, so that no bit of a step can change."""
  cycles = jax_lr_schedule(100, settings.cycles, 1.0).cycles
  factor = clock_lib.weight_decay(words(cycles, 3), cycles)
  assert type(factor) is float and factor == 1.0
  assert Step(0.1).weight_decay == 1.0


def test_a_clock_that_is_stretched_reads_the_nominal_step():
  cycles = planned(shapes.Linear())
  clock = clock_lib.anchored_clock(10, 50.0, 310, 0, cycles)  # a pace of 1/2
  at = lambda step: clock_lib.weight_decay(
    clock_lib.packed(clock._replace(count=np.int32(step))), cycles
  )
  # 1 - 100 / 200 at nominal step 100, and 0 from the end on.
  assert float(at(110)) == pytest.approx(0.5)
  assert float(at(310)) == float(at(1000)) == 0.0


def test_a_decay_that_cannot_be_is_refused():
  below = shapes.Lambda(lambda x: 0.5 - x)
  with pytest.raises(
    ValueError,
    match=r'^factor on the weight decay of cycles\[1\]=-.*at least 0',
  ):
    planned(Constant(), below)
  with pytest.raises(ValueError, match='^weight_decay=0.5: must be a shape'):
    Cycle(weight_decay=0.5)


def test_json_holds_it():
  cycle = Cycle(weight_decay=Cosine(floor=0.1))
  settings = dataclasses.replace(SOFT_RESET, cycles=(cycle, Cycle()))
  plain = as_plain(settings)
  assert plain['cycles'][0]['weight_decay'] == {'class': 'Cosine', 'floor': 0.1}
  assert plain['cycles'][1]['weight_decay'] == {'class': 'Constant'}
  assert settings_json.from_plain(plain) == settings
  assert Cycle(decay=Cooldown()) == settings_json.from_plain(
    {'class': 'Cycle', 'decay': {'class': 'Cooldown'}}
  )

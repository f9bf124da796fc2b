"""Weight decay by a shape over each cycle, as the schedulers of its names have it.

Those of Cerebras multiply the weight decay as its schedulers of the same names
multiply the learning rate, whose values are in tests/data. The formula of
pytorch-accelerated's StepWdScheduler is written from its page.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import reference
from helpers.neighbours import CASES, Case
from reset_cycles.core import clock as clock_lib
from reset_cycles.core.chain import jax_lr_schedule
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


# The scheduler of the learning rate with the values of each of the weight decay.
SCHEDULERS = {
  'ConstantWD': 'ConstantLR',
  'PolynomialWD': 'PolynomialLR_p2.0',
  'LinearWD': 'PolynomialLR_p1.0',
  'ExponentialWD': 'ExponentialLR_staircase',
  'InverseExponentialTimeDecayWD': 'InverseExponentialTimeDecayLR_e2_staircase',
  'InverseSquareRootDecayWD': 'InverseSquareRootDecayLR',
  'CosineDecayWD': 'CosineDecayLR',
  'SequentialWD': 'SequentialLR_linwarm_cosine',
  'PiecewiseConstantWD': 'PiecewiseConstantLR',
  'MultiStepWD': 'MultiStepLR',
  'StepWD': 'StepLR',
  'CosineAnnealingWD': 'CosineAnnealingLR',
  'LambdaWD': 'LambdaLR',
  'CosineAnnealingWarmRestartsWD': 'CosineAnnealingWarmRestarts_T25',
  'MultiplicativeWD': 'MultiplicativeLR',
  'ChainedWD': 'ChainedScheduler_const_exp',
  'CyclicWD': 'CyclicLR_triangular',
  'OneCycleWD': 'OneCycleLR_cos_2phase',
}
# wd * gamma after every n updates; it grows.
GROWING = Case(
  1.0,
  STEPS,
  composed_shapes.PiecewiseConstant(
    tuple(1.1**i for i in range(5)), at=(0.2, 0.4, 0.6, 0.8)
  ),
)
# Where two libraries have a name, Cerebras' schedule comes first.
FACTORS = {case[2]: case[:2] for case in reversed(CASES)}
FACTORS = {name: FACTORS[rate] for name, rate in SCHEDULERS.items()}
FACTORS['StepWdScheduler'] = GROWING, [1.1 ** (t // 40) for t in range(STEPS)]


def planned(*decays, steps=STEPS):
  """Cycles with these shapes of the weight decay."""
  cycles = [Cycle(0.05, warmup_factor=WARMUP, weight_decay=d) for d in decays]
  return jax_lr_schedule(steps, cycles, 1.0).cycles


def words(cycles, step, setting=0):
  start = sum(cycle.steps for cycle in cycles[:setting])
  end = start + cycles[setting].steps
  clock = clock_lib.anchored_clock(start, 0.0, end, setting, cycles)
  return clock_lib.packed(clock._replace(count=np.int32(step)))


@pytest.mark.oracle
@pytest.mark.parametrize('name', FACTORS)
def test_every_scheduler_of_the_weight_decay(name):
  case, values = FACTORS[name]
  cycles = planned(Cosine(), case.shape, steps=2 * case.steps)
  factor = jax.jit(lambda words: clock_lib.weight_decay(words, cycles))
  steps = range(0, min(case.steps, len(values)), 3)
  found = [float(factor(words(cycles, case.steps + t, 1))) for t in steps]
  expected = [values[t] / case.peak for t in steps]
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


@pytest.mark.parametrize('factor', (None, 1.5))
@pytest.mark.parametrize('make', (AdamW, NadamW))
def test_adam_with_a_decay_that_falls_agrees_with_its_twin(make, factor):
  """Also where the epochs are a factor beside the shape."""
  cycles = planned(Cosine(floor=0.1))
  cycles = [c._replace(decay_factor=factor) for c in cycles]
  optimizer = make(0.25, 0.9, weight_decay=2.0)
  history, _ = trained(optimizer, cycles)
  rates = [
    reference.cycle_rate(t, STEPS, cycles[0].cycle) for t in range(STEPS)
  ]
  most = 2.0 * (factor or 1.0)
  decay = Cycle(most, warmup_factor=0.0, decay=Cosine(floor=0.1))
  decays = [reference.cycle_rate(t, STEPS, decay) for t in range(STEPS)]
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
  for of in (clock_lib.weight_decay, clock_lib.decay_factor):
    factor = of(words(cycles, 3), cycles)
    assert type(factor) is float and factor == 1.0
  assert Step(0.1).weight_decay == Step(0.1).decay_factor == 1.0


def test_a_cycle_has_a_factor_beside_its_shape():
  """Of the shape 1 - t / 100 in the second cycle, and of the epochs 2 and 3."""
  plan = planned(Constant(), shapes.Linear())
  cycles = (
    plan[0]._replace(decay_factor=2.0),
    plan[1]._replace(decay_factor=3.0),
  )
  at = lambda step, i: tuple(
    float(factor(words(cycles, step, i), cycles))
    for factor in (clock_lib.weight_decay, clock_lib.decay_factor)
  )
  half = STEPS // 2
  assert [at(0, 0), at(half - 1, 0)] == [(1.0, 2.0), (1.0, 2.0)]
  assert at(half, 1) == (1.0, 3.0)
  assert at(half + half // 4, 1) == pytest.approx((0.75, 3.0))
  decays = clock_lib.sampled_decays(cycles, 5)
  np.testing.assert_allclose(decays, [[1.0] * 5, [1.0, 0.75, 0.5, 0.25, 0.0]])


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

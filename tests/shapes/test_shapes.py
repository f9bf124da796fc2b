"""All shapes: what they look like, what they refuse, and what they promise."""

import dataclasses
import inspect
import math
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest

from helpers.curves import TOLERANCE, assert_close, read
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.clock import sampled_rates
from reset_cycles.core.schedules import (
  Constant,
  Cooldown,
  Cosine,
  Cycle,
  LinearWarmup,
)
from reset_cycles.shapes import composed as composed_shapes
from reset_cycles.shapes import simple as shapes
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
  CosineWarmup,
  Exponential,
  ExponentialWarmup,
  HoldingExponential,
  HoldingLinear,
  InversePower,
  InverseTime,
  KDecayCosine,
  Lambda,
  Linear,
  Polynomial,
  PolynomialWarmup,
  Staircase,
)

CLASSES = {
  name: value
  for module in (shapes, composed_shapes)
  for name, value in vars(module).items()
  if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
}
KNOWN = {**CLASSES, 'Cosine': Cosine, 'Constant': Constant}

# Steps of the phase, the shape, values: what no other library and no example has.
BY_HAND = (
  # A third of the steps are a quarter of the way.
  (12, CosineWarmup(start=0.2), {0: 0.2, 4: 0.4, 6: 0.6, 8: 0.8, 12: 1, 13: 1}),
  (10, ExponentialWarmup(start=0.25), {0: 0.25, 5: 0.5, 10: 1, 11: 1}),
  (10, ExponentialWarmup(start=1e-38), {0: 0, 9: 1e-38**0.1, 10: 1}),
  (10, PolynomialWarmup(power=0.5), {0: 0, 2.5: 0.5, 10: 1}),
  (100, Polynomial(share=0.29), {28: 1 / 29, 29: 0, 100: 0}),
  # (1 - t / 25 n)^power in the n-th 25 steps, which end at 0.
  (
    100,
    Polynomial(share=0.25, cycle=True, power=2),
    {0: 1, 12.5: 0.25, 25: 0, 37.5: 1 / 16, 50: 0, 51: (24 / 75) ** 2, 100: 0},
  ),
  # Stairs between which no factor is taken, of a growing one as well.
  (100, Multiplicative((0.5, 4, 0)), {33: 1, 34: 0.5, 66: 0.5, 67: 2, 100: 0}),
  (100, Linear(floor=0.2), {0: 1, 1: 0.992, 50: 0.6, 100: 0.2, 101: 0.2}),
  (100, HoldingExponential(), {0: 1, 20: 1, 50: 0.1**0.5, 80: 0.1}),
  (100, HoldingLinear(), {0: 1, 20: 1, 60: 0.5, 99: 0.0125, 100: 0}),
  (
    100,
    Staircase(factor=0.5, at=(0.253, 0.8)),
    {25: 1, 25.2: 1, 25.3: 0.5, 79: 0.5, 80: 0.25, 200: 0.25},
  ),
  (100, InverseTime(rate=1, share=0.5, exponent=2), {0: 1, 50: 0.5, 100: 0.2}),
  # floor((t / 10)^2) is 1 at 14 and 2 at 15.
  (
    100,
    InverseTime(rate=1, share=0.1, exponent=2, staircase=True),
    {0: 1, 9: 1, 10: 0.5, 14: 0.5, 15: 1 / 3, 20: 0.2},
  ),
  # Too many stairs for a float32 to tell: the curve.
  (100, InverseTime(rate=1, share=1e-6, staircase=True), {0: 1, 50: 2e-6}),
  (100, Exponential(factor=0.99999, share=5e-5, staircase=True), {0: 1}),
  (
    100,
    InversePower(hold=0.25, exponent=1, cooldown=0.5, floor=0.1),
    {25: 1, 40: 0.625, 50: 0.5, 75: 0.3, 100: 0.1},
  ),
  # From 1/2: 1 / (10 r + 2 (1 - r)) over 50 steps.
  (
    100,
    InversePower(
      hold=0.25, exponent=1, cooldown=0.5, fall='inverse', floor=0.1
    ),
    {40: 0.625, 50: 0.5, 75: 1 / 6, 100: 0.1},
  ),
  (
    100,
    CosineWarmRestarts(periods=2, multiplier=3, floor=0.2),
    {0: 1, 12.5: 0.6, 25: 1, 62.5: 0.6, 100: 0.2},
  ),
  # Of 1 + 10 + ... steps, the last period has nine tenths.
  (100, CosineWarmRestarts(periods=100, multiplier=10), {10: 1, 55: 0.5}),
  (
    100,
    PiecewiseConstant(values=(1, 0, 0.2), at=(0.29, 0.57)),
    {28: 1, 29: 0, 56: 0, 57: 0.2, 100: 0.2},
  ),
  (
    100,
    Triangular(periods=1, mode='exp_range', gamma=0.01),
    {25: 0.5 * 0.01**0.25, 50: 0.1, 75: 0.5 * 0.01**0.75},
  ),
  # gamma^n, not gamma^x: .81 at the top of the second of two periods.
  (
    100,
    Triangular(2, mode='exp_range', gamma=0.9, scale_mode='cycle', floor=0.1),
    {0: 0.1, 25: 0.91, 50: 0.1, 62.5: 0.1 + 0.9 * 0.405, 75: 0.829, 100: 0.1},
  ),
  (100, Triangular(periods=2, mode='triangular2'), {25: 1, 75: 0.5, 100: 0}),
  (
    100,
    OneCycle(rise=0.2, start=0.5, end=0, anneal='linear', three_phase=True),
    {0: 0.5, 5: 0.625, 20: 1, 30: 0.75, 40: 0.5, 70: 0.25, 100: 0},
  ),
  # The turn is between two steps.
  (
    3,
    OneCycle(rise=0.5, start=0, end=0, anneal='linear'),
    {1: 2 / 3, 2: 2 / 3},
  ),
  # 1 / (10 r + (1 - r)) over 90 steps.
  (
    100,
    WSD(decay=0.9, floor=0.1, fall='inverse'),
    {10: 1, 20: 0.5, 40: 0.25, 100: 0.1},
  ),
  # 1 - sqrt(r) over 20 steps.
  (100, WSD(decay=0.2, fall='sqrt'), {80: 1, 85: 0.5, 100: 0}),
  # Checkpoints at 1/4, 1/2 and 1; the last tenth before each.
  (
    1000,
    WSD(checkpoints=3, decay=0.1),
    {225: 1, 249: 0.04, 250: 1, 475: 1, 499: 0.04, 500: 1, 975: 0.5, 1000: 0},
  ),
  (100, Lambda(lambda x: 2 * x), {0: 0, 25: 0.5, 200: 2}),
  (
    10,
    Sequential((Constant(), Linear(), Constant()), (0.1, 0.6), (9, 1, 0.25)),
    {0: 9, 1: 1, 3.5: 0.5, 6: 0.25, 10: 0.25},
  ),
  # A part of a width that float32 cannot tell from 0.
  (4, Sequential((Linear(), Constant()), at=(1 - 1e-9,)), {2: 0.5, 4: 1}),
  (4, Chained((Linear(), Staircase(0.5, (0.5,)))), {1: 0.75, 2: 0.25, 4: 0}),
)


@pytest.mark.parametrize(
  ('steps', 'shape', 'values'),
  BY_HAND,
  # A function's address is another one in each process.
  ids=[str(case[1]).partition(' at 0x')[0] for case in BY_HAND],
)
def test_by_hand(steps, shape, values):
  rates = read(shape, steps, list(values))
  assert_close(rates, list(values.values()), max(1.0, *values.values()))


EXAMPLE = re.compile(
  r'Example:\s+(.*?)\s+over\s+(\d+)\s+steps\s+is\s+(.*?)\.\n', re.S
)


@pytest.mark.parametrize('name', sorted(set(CLASSES) - {'Lambda'}))
def test_the_example_of_every_docstring_is_true(name):
  text = inspect.getdoc(CLASSES[name]) + '\n'
  written, steps, values = EXAMPLE.search(text).groups()
  shape = eval(written, KNOWN)  # noqa: S307
  assert type(shape) is CLASSES[name]
  pairs = [re.split(r'\s+at\s+', pair) for pair in re.split(r',\s+', values)]
  assert len(pairs) >= 2
  # And phases of one, two and three steps.
  lengths = [*[int(steps)] * len(pairs), *[1] * 5, *[3] * 7, 2]
  counts = [*(float(t) for _, t in pairs), *range(-1, 4), *range(-1, 6), 1]
  rates = read(shape, lengths, counts)
  assert_close(rates[: len(pairs)], [float(value) for value, _ in pairs], 1.0)
  assert np.all((rates >= 0) & (rates <= 1 + TOLERANCE))
  # With a plain number, too.
  assert_close([float(shape(0.5))], rates[-1:], 1.0)


def test_the_holding_decays_hold_longer_after_a_warm_up():
  # L = 200 and W = 30: 1 for 30 + 40 steps, of the 170.
  rates = read(HoldingExponential(), 170, [0, 70, 130, 190], 30 / 200)
  assert_close(rates, [1, 1, 0.1**0.5, 0.1 ** (5 / 6)], 1.0)
  # Down to 0 over 160 - 60 steps, which is the end.
  rates = read(HoldingLinear(), 170, [0, 70, 120, 170], 30 / 200)
  assert_close(rates, [1, 1, 0.5, 0], 1.0)


def test_the_k_decay_is_counted_from_the_end_of_the_warm_up():
  """Over the 80 of 100 steps after it, to the end of the cycle."""
  cycle = Cycle(1.0, warmup_factor=0.2, decay=KDecayCosine(k=2))
  rates = jax_lr_schedule(100, [cycle], 1.0)(np.array([20, 60, 99]))
  expected = [(1 + math.cos(math.pi * x**2)) / 2 for x in (0, 1 / 2, 79 / 80)]
  assert_close(rates, expected, 1.0)


@pytest.mark.parametrize(
  'shape', (HoldingLinear(), HoldingExponential()), ids=repr
)
@pytest.mark.parametrize(
  ('factor', 'fits'), ((0.399, True), (0.4, False), (1.0, False))
)
def test_a_holding_decay_needs_steps_to_fall_in(shape, factor, fits):
  cycle = Cycle(warmup_factor=factor, warmup=shape, decay=shape)
  if fits:
    chain = jax_lr_schedule(1000, [cycle], 1.0)
    assert np.all(np.isfinite(sampled_rates(chain.cycles)))
    return
  with pytest.raises(ValueError, match=r'of cycles\[0\]=.*nan.* finite'):
    jax_lr_schedule(1000, [cycle], 1.0)


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067, 25_000))
def test_jumps_are_not_a_step_late(period):
  # A product with the float nearest to 1 / period is below k at k * period.
  steps = np.arange(1, 40) * period
  whole = 40 * period
  shares = tuple(i / 40 for i in range(1, 40))
  for stairs in (
    Exponential(factor=0.5, share=0.025, staircase=True),
    Staircase(factor=0.5, at=shares),
    PiecewiseConstant(values=tuple(0.5**i for i in range(40)), at=shares),
    Multiplicative((0.5,) * 40),
  ):
    expected = 0.5 ** np.arange(1, 40)
    rates = read(stairs, whole, [steps, steps - 1])
    assert_close(rates, [expected, 2 * expected], 1e-4)
  at, before = read(CosineWarmRestarts(periods=40), whole, [steps, steps - 1])
  np.testing.assert_array_equal(at, 1.0)
  assert np.all(before < 0.01)


@pytest.mark.parametrize('kind', (Sequential, Chained))
def test_a_shape_inside_of_another_has_no_warm_up(kind):
  alone = read(HoldingLinear(), 100, [20, 60])
  whole = read(kind((HoldingLinear(),)), 100, [20, 60], 0.3)
  np.testing.assert_array_equal(whole, alone)


WRONG = (
  (CosineWarmup, {'start': 1.0}, r'start=1\.0'),
  (ExponentialWarmup, {'start': 0.0}, r'start=0\.0: .* \[1e-38, 1\)'),
  (PolynomialWarmup, {'power': 0}, 'power=0'),
  (Linear, {'floor': math.nan}, 'floor=nan'),
  (Exponential, {'factor': 1.5}, r'factor=1\.5: .* \(0, 1\]'),
  (Exponential, {'share': 0}, 'share=0'),
  (Exponential, {'staircase': 1}, 'staircase=1: .* True or False'),
  (Staircase, {'at': (0.5, 0.25)}, r'at=\(0\.5, 0\.25\): must be in rising'),
  (Staircase, {'at': (0.5, 1.0)}, r'at\[1\]=1\.0'),
  (Staircase, {'at': 0.5}, r'at=0\.5: must be a tuple'),
  (Polynomial, {'end': 2}, 'end=2'),
  (Polynomial, {'cycle': 1}, 'cycle=1: .* True or False'),
  (Multiplicative, {'factors': ()}, 'number of factors=0: .* at least 1'),
  (Multiplicative, {'factors': (1, -1)}, r'factors\[1\]=-1'),
  (Multiplicative, {'factors': (1e20, 1e20)}, 'stays finite in float32'),
  (InverseTime, {'rate': -1}, 'rate=-1'),
  (InversePower, {'fall': 'sqare'}, "fall='sqare'.*Did you mean sqrt"),
  (InversePower, {'cooldown': 0.5, 'floor': 0.4}, 'floor=0.4: .* 0.3162'),
  (InversePower, {'cooldown': 0.5, 'fall': 'inverse'}, "with fall='inverse'"),
  (KDecayCosine, {'cooldown': 1}, 'cooldown=1'),
  (CosineAnnealing, {'share': 2}, 'share=2'),
  (Lambda, {'function': 3}, 'function=3: must be a function'),
  (PiecewiseConstant, {'values': (1, 2)}, 'one more than the 2 in at'),
  (PiecewiseConstant, {'values': (1, -2, 3)}, r'values\[1\]=-2'),
  (CosineWarmRestarts, {'periods': 101}, 'periods=101: .* at most 100'),
  (CosineWarmRestarts, {'multiplier': 0.5}, r'multiplier=0\.5'),
  (Triangular, {'mode': 'triangle'}, 'Did you mean triangular'),
  (Triangular, {'rise': 1}, 'rise=1'),
  (Triangular, {'scale_mode': 'cycles'}, 'Did you mean cycle'),
  (OneCycle, {'rise': 0.5, 'three_phase': True}, r'rise=0\.5: .* \(0, \.5\)'),
  (WSD, {'fall': 'inverse'}, 'floor=0.0: must be above 0'),
  (WSD, {'checkpoints': 0}, 'checkpoints=0'),
  (Sequential, {'shapes': ()}, r'shapes=\(\): .* at least one'),
  (Sequential, {'shapes': (Cosine,)}, 'at least one shape'),
  (Sequential, {'shapes': (Cosine(),) * 2}, r'at=\(\): must be 1 shares'),
  (Sequential, {'shapes': (Cosine(),), 'peaks': (1, 2)}, 'one per shape'),
  (Chained, {'shapes': 'Cosine'}, "shapes='Cosine'"),
)


@pytest.mark.parametrize(
  ('kind', 'fields', 'message'),
  WRONG,
  ids=[f'{kind.__name__} {fields}' for kind, fields, _ in WRONG],
)
def test_wrong_fields_are_refused(kind, fields, message):
  with pytest.raises(ValueError, match=message):
    kind(**fields)


@pytest.mark.parametrize(
  ('function', 'message'),
  (
    (lambda x: math.cos(x), 'JAX can trace, from a share to one real'),
    (lambda x: None, 'None is not a number'),
    (lambda x: jnp.stack([x, x]), 'from a share to one real number'),
    (lambda x: x * 1j, 'from a share to one real number'),
  ),
  ids=('not traced', 'nothing', 'two numbers', 'complex'),
)
def test_functions_that_cannot_be_used(function, message):
  with pytest.raises(ValueError, match=message):
    Lambda(function)


def signature(kind):
  """Staircase(factor=0.1, at=(0.5, 0.75)), with the defaults of the fields."""
  fields = ', '.join(
    field.name
    if field.default is dataclasses.MISSING
    else f'{field.name}={field.default!r}'
    for field in dataclasses.fields(kind)
  )
  return f'{kind.__name__}({fields})'


def test_the_page_lists_every_shape_with_its_fields_and_formula():
  page = pathlib.Path(__file__).parents[2] / 'docs' / 'shapes.md'
  rows = [r for r in page.read_text().splitlines() if r.startswith('| `')]
  own = (LinearWarmup, Cooldown, Cosine, Constant)
  expected = [
    f'| `{signature(kind)}` | {inspect.getdoc(kind).splitlines()[0]} |'
    for kind in (*own, *CLASSES.values())
  ]
  assert sorted(rows) == sorted(expected)

"""All shapes: what they look like, what they refuse, and what they promise."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.curves import TOLERANCE, assert_close, read
from reset_cycles.core.cycle import (
  Cooldown,
  Cosine,
  Cycle,
  Hparams,
  LinearWarmup,
  Phase,
)
from reset_cycles.core.schedules import jax_lr_schedule
from reset_cycles.parts import composed_shapes, shapes
from reset_cycles.parts.composed_shapes import (
  WSD,
  Chained,
  CosineWarmRestarts,
  OneCycle,
  PiecewiseConstant,
  Ratio,
  Sequential,
  Triangular,
)
from reset_cycles.parts.shapes import (
  Constant,
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
  Multiplicative,
  Polynomial,
  PolynomialWarmup,
  Step,
)

CLASSES = {
  name: value
  for module in (shapes, composed_shapes)
  for name, value in vars(module).items()
  if dataclasses.is_dataclass(value)
}
KNOWN = {**CLASSES, 'Cosine': Cosine}

# Over 100 steps: what neither another library nor an example has.
BY_HAND = (
  # Exact decimals: .29 * 100 is 28.999999999999996.
  (Polynomial(share=0.29), {28: 1 / 29, 29: 0}),
  (Linear(floor=0.2), {0: 1, 1: 0.992, 50: 0.6, 100: 0.2, 101: 0.2}),
  (HoldingExponential(), {0: 1, 20: 1, 50: 0.1**0.5, 80: 0.1}),
  (HoldingLinear(), {0: 1, 20: 1, 60: 0.5, 99: 0.0125, 100: 0}),
  (
    Step(factor=0.5, at=(0.253, 0.8)),
    {25: 1, 25.2: 1, 25.3: 0.5, 79: 0.5, 80: 0.25, 200: 0.25},
  ),
  (InverseTime(rate=1, share=0.5, exponent=2), {0: 1, 50: 0.5, 100: 0.2}),
  # floor((t / 10)^2) is 1 at 14 and 2 at 15.
  (
    InverseTime(rate=1, share=0.1, exponent=2, staircase=True),
    {9: 1, 10: 0.5, 14: 0.5, 15: 1 / 3, 20: 0.2},
  ),
  (
    InversePower(hold=0.25, exponent=1, cooldown=0.5, floor=0.1),
    {25: 1, 40: 0.625, 50: 0.5, 75: 0.3, 100: 0.1},
  ),
  (
    CosineWarmRestarts(periods=2, multiplier=3, floor=0.2),
    {0: 1, 12.5: 0.6, 25: 1, 62.5: 0.6, 100: 0.2},
  ),
  (
    PiecewiseConstant(values=(1, 0, 0.2), at=(0.29, 0.57)),
    {28: 1, 29: 0, 56: 0, 57: 0.2, 100: 0.2},
  ),
  (
    Triangular(periods=1, mode='exp_range', gamma=0.01),
    {25: 0.5 * 0.01**0.25, 50: 0.1, 75: 0.5 * 0.01**0.75},
  ),
  (
    OneCycle(rise=0.2, start=0.5, end=0, anneal='linear', three_phase=True),
    {0: 0.5, 5: 0.625, 20: 1, 30: 0.75, 40: 0.5, 70: 0.25, 100: 0},
  ),
  # 1 / (10 r + (1 - r)) over 90 steps.
  (
    WSD(decay=0.9, floor=0.1, fall='inverse'),
    {10: 1, 20: 0.5, 40: 0.25, 100: 0.1},
  ),
  (Lambda(lambda u: 2 * u), {0: 0, 25: 0.5, 200: 2}),
  (
    Multiplicative(lambda t: t / (t + 1)),
    {0: 1, 1: 0.5, 2: 1 / 3, 9: 0.1, 100: 1 / 101, 300: 1 / 101},
  ),
)
# Over 10 steps.
OF_TEN = (
  (CosineWarmup(start=0.2), {0: 0.2, 5: 0.6, 10: 1, 11: 1}),
  (ExponentialWarmup(start=0.25), {0: 0.25, 5: 0.5, 10: 1, 11: 1}),
  (PolynomialWarmup(power=0.5), {0: 0, 2.5: 0.5, 10: 1}),
)
SHORT = OneCycle(start=0.5, end=0.0, rise=0.1)
OF_FEW = (
  # A step up, a step down and a third: beyond the phase, where it is short.
  (SHORT, {0: 0.5, 1: 1, 2: 0.5, 3: 0}, 1),
  (
    dataclasses.replace(SHORT, three_phase=True),
    {0: 0.5, 1: 1, 2: 0.5, 3: 0},
    3,
  ),
  # Parts without a step are left out: of 3, floor(0.3) = 0, then floor(1.8) = 1.
  (
    Sequential((Constant(), Linear(), Constant()), (0.1, 0.6), (9, 1, 0.25)),
    {0: 1, 0.5: 0.5, 1: 0.25, 3: 0.25},
    3,
  ),
)


def at_all(shape, steps, counts, warmup_steps=0):
  unit = shape.schedule(Phase(steps, warmup_steps))
  return read(unit, np.asarray(counts, np.float32))


@pytest.mark.parametrize(
  ('shape', 'values', 'steps'),
  [
    *((*case, 100) for case in BY_HAND),
    *((*case, 10) for case in OF_TEN),
    *OF_FEW,
  ],
)
def test_by_hand(shape, values, steps):
  rates = at_all(shape, steps, list(values))
  assert_close(rates, list(values.values()), max(1.0, *values.values()))
  if 0 in values:  # counts below zero read as zero
    assert_close(shape.schedule(Phase(steps))(-1.5), values[0], 1.0)


EXAMPLE = re.compile(
  r'Example:\s+(.*?)\s+over\s+(\d+)\s+steps\s+is\s+(.*?)\.\n', re.S
)


@pytest.mark.parametrize(
  'name', sorted(set(CLASSES) - {'Lambda', 'Multiplicative', 'Ratio'})
)
def test_the_example_of_every_docstring_is_true(name):
  text = inspect.getdoc(CLASSES[name]) + '\n'
  written, steps, values = EXAMPLE.search(text).groups()
  shape = eval(written, KNOWN)  # noqa: S307
  assert type(shape) is CLASSES[name]
  pairs = [re.split(r'\s+at\s+', pair) for pair in re.split(r',\s+', values)]
  assert len(pairs) >= 2
  rates = at_all(shape, int(steps), [float(t) for _, t in pairs])
  assert_close(rates, [float(value) for value, _ in pairs], 1.0)
  for few in (1, 3):
    rates = at_all(shape, few, np.arange(-1, few + 3))
    assert np.all((rates >= 0) & (rates <= 1 + TOLERANCE))


def test_the_holding_decays_hold_longer_after_a_warm_up():
  # L = 200 and W = 30: 1 for 30 + 40 steps, of the 170.
  rates = at_all(HoldingExponential(), 170, [0, 70, 130, 190], 30)
  assert_close(rates, [1, 1, 0.1**0.5, 0.1], 1.0)
  # Down to 0 over 160 - 60 steps, which is the end.
  rates = at_all(HoldingLinear(), 170, [0, 70, 120, 170], 30)
  assert_close(rates, [1, 1, 0.5, 0], 1.0)
  # One step below the bound, L = 1000 and W = 399: 801 - 798 steps to fall in,
  # after 399 + 200 of the 601.
  rates = at_all(HoldingLinear(), 601, [598, 599, 600, 601], 399)
  assert_close(rates, [1, 1, 0.5, 0], 1.0)
  for shape in (HoldingLinear(), HoldingExponential()):
    with pytest.raises(ValueError, match='warmup_steps=400: .* fewer than 0.4'):
      shape.schedule(Phase(600, 400))


@pytest.mark.parametrize('period', (49, 94, 115, 122, 227, 388, 1067))
def test_jumps_are_not_a_step_late(period):
  # A product with the float nearest to 1 / period is below k at k * period.
  steps = np.arange(1, 40, dtype=np.int32) * period
  whole = 40 * period
  stairs = Exponential(factor=0.5, share=0.025, staircase=True)
  expected = 0.5 ** np.arange(1, 40)
  np.testing.assert_array_equal(at_all(stairs, whole, steps), expected)
  np.testing.assert_array_equal(at_all(stairs, whole, steps - 1), 2 * expected)
  saw = Triangular(periods=40, rise=1 / period, floor=0.25)
  np.testing.assert_array_equal(at_all(saw, whole, steps), 0.25)
  assert_close(at_all(saw, whole, steps + 1), np.ones(39), 1.0)


@pytest.mark.parametrize('power', [0.1, 0.5, 1.0])
def test_a_polynomial_reaches_its_end_in_compiled_programs(power):
  for steps in (41, 47, 55, 83, 123):
    schedule = Polynomial(power=power).schedule(Phase(steps))
    assert jax.jit(schedule)(jnp.int32(steps)) == 0.0


@pytest.mark.parametrize('exponent', [2.0, 7.0, 13.0])
def test_an_inverse_time_decay_stays_a_number(exponent):
  shape = InverseTime(exponent=exponent)
  rates = at_all(shape, 1_000_000, [0, 500_000, 1_000_000])
  expected = [1.0, 1 / (1 + 9 * 0.5**exponent), 0.1]
  np.testing.assert_allclose(rates, expected, rtol=1e-5)


@pytest.mark.parametrize(
  ('total', 'count', 'periods'),
  (
    (1000, 1, [(1000, 100)]),
    (1000, 2, [(500, 50), (500, 50)]),
    (1000, 4, [(125, 12), (125, 12), (250, 25), (500, 50)]),
    # Checkpoints at floor(11 / 4), floor(11 / 2) and 11.
    (11, 3, [(2, 1), (3, 1), (6, 1)]),
    (1, 1, [(1, 0)]),
    # The first two would be at step 0.
    (3, 4, [(1, 0), (2, 1)]),
  ),
)
def test_periods_of_wsd(total, count, periods):
  assert WSD(checkpoints=count, decay=0.1).periods(total) == periods


def test_a_shape_inside_of_another_has_no_warm_up():
  alone = at_all(HoldingLinear(), 100, [20, 60])
  for kind in (Sequential, Chained):
    whole = at_all(kind((HoldingLinear(),)), 100, [20, 60], 30)
    np.testing.assert_array_equal(whole, alone)


def test_the_weight_decay_keeps_its_ratio_to_the_learning_rate():
  hparams = Hparams(learning_rate=0.5, weight_decay=0.2, warmup_factor=0.1)
  cycle = Cycle(hparams, decay=Linear(), weight_decay_shape=Ratio())
  [planned] = jax_lr_schedule(100, [cycle], 1.0).cycles
  counts = np.float32([0, 5, 10, 55, 100])
  expected = [0, 0.1, 0.2, 0.1, 0]
  assert_close(read(planned.weight_decay, counts), expected, 0.2)
  assert_close(read(planned.rate, counts), np.multiply(expected, 2.5), 0.5)
  with pytest.raises(ValueError, match=r'Ratio\(\) must be the weight_decay'):
    Ratio().schedule(Phase(10))


WRONG = (
  (CosineWarmup, {'start': 1.0}, r'start=1\.0'),
  (ExponentialWarmup, {'start': 0.0}, r'start=0\.0: .* \[1e-38, 1\)'),
  (PolynomialWarmup, {'power': 0}, 'power=0'),
  (Linear, {'floor': math.nan}, 'floor=nan'),
  (Exponential, {'factor': 1.5}, r'factor=1\.5: .* \(0, 1\]'),
  (Exponential, {'share': 0}, 'share=0'),
  (Exponential, {'staircase': 1}, 'staircase=1: .* True or False'),
  (Step, {'at': (0.5, 0.25)}, r'at=\(0\.5, 0\.25\): at must be in rising'),
  (Step, {'at': (0.5, 1.0)}, r'at\[1\]=1\.0'),
  (Step, {'at': 0.5}, r'at=0\.5: at must be a tuple'),
  (Polynomial, {'end': 2}, 'end=2'),
  (InverseTime, {'rate': -1}, 'rate=-1'),
  (InversePower, {'fall': 'sqare'}, "fall='sqare'.*Did you mean sqrt"),
  (InversePower, {'cooldown': 0.5, 'floor': 0.4}, 'floor=0.4: .* 0.3162'),
  (InversePower, {'cooldown': 0.5, 'fall': 'inverse'}, "with fall='inverse'"),
  (KDecayCosine, {'cooldown': 1}, 'cooldown=1'),
  (CosineAnnealing, {'share': 2}, 'share=2'),
  (Lambda, {'function': 3}, 'function=3: function must be a function'),
  (Multiplicative, {'function': 3}, 'function=3'),
  (PiecewiseConstant, {'values': (1, 2)}, 'one more than the 2 in at'),
  (PiecewiseConstant, {'values': (1, -2, 3)}, r'values\[1\]=-2'),
  (CosineWarmRestarts, {'periods': 101}, 'periods=101: .* from 1 to 100'),
  (CosineWarmRestarts, {'multiplier': 0.5}, r'multiplier=0\.5'),
  (Triangular, {'mode': 'triangle'}, 'Did you mean triangular'),
  (Triangular, {'rise': 1}, 'rise=1'),
  (OneCycle, {'rise': 0.5, 'three_phase': True}, r'rise=0\.5: .* \(0, \.5\)'),
  (WSD, {'fall': 'inverse'}, 'floor=0.0: floor must be above 0'),
  (WSD, {'checkpoints': 0}, 'checkpoints=0'),
  (Sequential, {'shapes': ()}, r'shapes=\(\): .* at least one'),
  (Sequential, {'shapes': (Cosine,)}, 'at least one shape'),
  (Sequential, {'shapes': (Cosine(),) * 2}, r'at=\(\): at must be 1 shares'),
  (Sequential, {'shapes': (Cosine(),), 'peaks': (1, 2)}, 'one per shape'),
  (Chained, {'shapes': 'Cosine'}, "shapes='Cosine'"),
)


@pytest.mark.parametrize(('kind', 'fields', 'message'), WRONG)
def test_wrong_fields_are_refused(kind, fields, message):
  with pytest.raises(ValueError, match=message):
    kind(**fields)


@pytest.mark.parametrize(
  ('shape', 'message'),
  (
    (Lambda(lambda u: math.cos(u)), 'JAX can trace, from a share to one real'),
    (Lambda(lambda u: None), 'None is not a number'),
    (Lambda(lambda u: jnp.stack([u, u])), 'from a share to one real number'),
    (Lambda(lambda u: u * 1j), 'from a share to one real number'),
    (
      Multiplicative(lambda t: 1 / (t - 3)),
      'to one number, its factor: .*zero',
    ),
    (Multiplicative(lambda t: None), 'to one number, its factor'),
    (Multiplicative(lambda t: 1e30), 'whose product stays finite'),
  ),
)
def test_functions_that_cannot_be_used(shape, message):
  with pytest.raises(ValueError, match=message):
    shape.schedule(Phase(10))


def test_lists_become_tuples_so_that_shapes_can_be_compared():
  assert Step(at=[0.5, 0.75]) == Step()
  assert hash(Sequential([LinearWarmup()])) == hash(
    Sequential((LinearWarmup(),))
  )


def signature(kind):
  """Step(factor=0.1, at=(0.5, 0.75)), with the defaults of the fields."""
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
  own = (LinearWarmup, Cooldown, Cosine)
  expected = [
    f'| `{signature(kind)}` | {inspect.getdoc(kind).splitlines()[0]} |'
    for kind in (*own, *CLASSES.values())
  ]
  assert sorted(rows) == sorted(expected)

"""All shapes: what they look like, what they refuse, and what they promise."""

from __future__ import annotations

import ast
import inspect
import math
import re
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shape_examples
from curves import TOLERANCE, assert_close
from reset_cycles.schedules.decays import DECAYS
from reset_cycles.schedules.phase import Phase
from reset_cycles.schedules.warmups import WARMUPS
from reset_cycles.settings.named import Named, as_plain, has_function

KINDS = {'warmup': WARMUPS, 'decay': DECAYS}
ALL = (*shape_examples.DECAYS, *shape_examples.WITH_FUNCTIONS)


def read(schedule, counts):
  """All counts at once, without compiling; test_cycle_clock compiles them."""
  counts = jnp.asarray(counts, jnp.float32)
  return np.asarray(jnp.broadcast_to(schedule(counts), counts.shape))


def unit(shape, steps, kind='decay'):
  return KINDS[kind].make(KINDS[kind].read('shape', shape), Phase(steps))


# Over 100 steps, for a peak of 1.
BY_HAND = (
  ({'name': 'cosine', 'floor': 0.5}, {0: 1, 50: 0.75, 100: 0.5, 101: 0.5}),
  ({'name': 'linear', 'floor': 0.2}, {0: 1, 1: 0.992, 50: 0.6, 100: 0.2}),
  ('linear', {0: 1, 1: 0.99, 50: 0.5, 99: 0.01, 100: 0, 101: 0}),
  ('constant', {0: 1, 50: 1, 100: 1}),
  ('holding_exponential', {0: 1, 20: 1, 50: 0.1**0.5, 80: 0.1}),
  ('holding_linear', {0: 1, 20: 1, 60: 0.5, 99: 0.0125, 100: 0}),
  ({'name': 'step', 'factor': 0.5, 'at': [0.25]}, {24: 1, 25: 0.5, 100: 0.5}),
  ({'name': 'polynomial', 'power': 2, 'end': 0.2}, {0: 1, 50: 0.4, 100: 0.2}),
  (
    {'name': 'polynomial', 'start': 0, 'end': 1, 'share': 0.5},
    {0: 0, 25: 0.5, 50: 1, 80: 1},
  ),
  (
    {'name': 'polynomial', 'share': 0.2, 'cycle': True},
    {10: 0.5, 20: 0, 30: 0.25, 40: 0, 50: 1 / 6},
  ),
  (
    {'name': 'exponential', 'factor': 0.25, 'share': 0.5},
    {0: 1, 25: 0.5, 50: 0.25, 100: 0.0625},
  ),
  (
    {'name': 'exponential', 'factor': 0.5, 'share': 0.25, 'staircase': True},
    {24: 1, 25: 0.5, 49: 0.5, 50: 0.25, 100: 0.0625},
  ),
  (
    {'name': 'inverse_time', 'rate': 1, 'share': 0.5},
    {0: 1, 50: 0.5, 100: 1 / 3},
  ),
  (
    {'name': 'inverse_time', 'rate': 1, 'share': 0.5, 'exponent': 2},
    {0: 1, 50: 0.5, 100: 0.2},
  ),
  (
    # floor((t / 10)^2) is 1 at 14 and 2 at 15.
    {
      'name': 'inverse_time',
      'rate': 1,
      'share': 0.1,
      'exponent': 2,
      'staircase': True,
    },
    {9: 1, 10: 0.5, 14: 0.5, 15: 1 / 3, 20: 0.2},
  ),
  ({'name': 'inverse_power', 'hold': 0.04}, {0: 1, 4: 1, 16: 0.5, 64: 0.25}),
  (
    {
      'name': 'inverse_power',
      'hold': 0.25,
      'exponent': 1,
      'cooldown': 0.5,
      'floor': 0.1,
    },
    {25: 1, 40: 0.625, 50: 0.5, 75: 0.3, 100: 0.1},
  ),
  (
    {'name': 'k_decay_cosine', 'k': 2, 'cooldown': 0.2},
    {0: 1, 40: 0.5 + 0.5**1.5, 80: 0, 90: 0},
  ),
  (
    {'name': 'cosine_annealing', 'share': 0.25, 'floor': 0.5},
    {0: 1, 25: 0.5, 50: 1, 75: 0.5},
  ),
  (
    {'name': 'cosine_warm_restarts', 'periods': 2, 'multiplier': 3},
    {0: 1, 12.5: 0.5, 25: 1, 62.5: 0.5, 100: 0},
  ),
  (
    {'name': 'piecewise_constant', 'values': [1, 0, 0.2], 'at': [0.29, 0.57]},
    {28: 1, 29: 0, 56: 0, 57: 0.2, 100: 0.2},
  ),
  (
    {'name': 'cyclic', 'periods': 2, 'floor': 0.2, 'rise': 0.2},
    {0: 0.2, 5: 0.6, 10: 1, 30: 0.6, 50: 0.2, 60: 1},
  ),
  (
    {'name': 'cyclic', 'periods': 4, 'mode': 'triangular2'},
    {12.5: 1, 25: 0, 37.5: 0.5, 62.5: 0.25},
  ),
  (
    {'name': 'cyclic', 'periods': 1, 'mode': 'exp_range', 'gamma': 0.01},
    {25: 0.5 * 0.01**0.25, 50: 0.1, 75: 0.5 * 0.01**0.75},
  ),
  (
    {'name': 'one_cycle', 'rise': 0.2, 'start': 0.5, 'end': 0.1},
    {0: 0.5, 10: 0.75, 20: 1, 60: 0.55, 100: 0.1},
  ),
  (
    {
      'name': 'one_cycle',
      'rise': 0.2,
      'start': 0.5,
      'end': 0,
      'anneal': 'linear',
      'three_phase': True,
    },
    {0: 0.5, 5: 0.625, 20: 1, 30: 0.75, 40: 0.5, 70: 0.25, 100: 0},
  ),
  (
    {'name': 'wsd', 'checkpoints': 2, 'decay': 0.2, 'fall': 'linear'},
    {39: 1, 40: 1, 45: 0.5, 49: 0.1, 50: 1, 90: 1, 95: 0.5, 100: 0},
  ),
  (
    {'name': 'wsd', 'floor': 0.25, 'fall': 'sqrt'},
    {80: 1, 85: 0.625, 100: 0.25},
  ),
  (
    {
      'name': 'sequential',
      'shapes': ['cosine', {'name': 'polynomial', 'power': 2}],
      'at': [0.6],
      'peaks': [1, 0.5],
    },
    {0: 1, 30: 0.5, 60: 0.5, 80: 0.125, 100: 0},
  ),
  (
    {
      'name': 'chained',
      'shapes': ['cosine', {'name': 'exponential', 'factor': 0.25}],
    },
    {0: 1, 50: 0.25, 100: 0},
  ),
  ({'name': 'lambda', 'function': lambda u: 2 * u}, {0: 0, 25: 0.5, 200: 2}),
  (
    {'name': 'multiplicative', 'function': lambda t: t / (t + 1)},
    {0: 1, 1: 0.5, 2: 1 / 3, 9: 0.1},
  ),
)


def name_in(shape):
  return shape if isinstance(shape, str) else shape['name']


def label(shape):
  return str(DECAYS.read('shape', shape))[:60]


@pytest.mark.parametrize(('shape', 'values'), BY_HAND, ids=lambda x: '')
def test_decays_by_hand(shape, values):
  counts = np.asarray(list(values), np.float32)
  assert_close(read(unit(shape, 100), counts), list(values.values()), 1.0)


@pytest.mark.parametrize(
  ('shape', 'values'),
  (
    ({'name': 'linear', 'start': 0.2}, {0: 0.2, 5: 0.6, 10: 1, 11: 1}),
    ({'name': 'cosine', 'start': 0.2}, {0: 0.2, 5: 0.6, 10: 1}),
    ({'name': 'exponential', 'start': 0.25}, {0: 0.25, 5: 0.5, 10: 1}),
    ({'name': 'polynomial', 'power': 2, 'start': 0.2}, {0: 0.2, 5: 0.4, 10: 1}),
    ({'name': 'polynomial', 'power': 0.5}, {0: 0, 2.5: 0.5, 10: 1}),
  ),
)
def test_warmups_by_hand(shape, values):
  counts = np.asarray(list(values), np.float32)
  rates = read(unit(shape, 10, 'warmup'), counts)
  assert_close(rates, list(values.values()), 1.0)


@pytest.mark.parametrize(('shape', 'values'), BY_HAND, ids=lambda x: '')
def test_counts_of_all_kinds(shape, values):
  """A Python int, an int32, a float, traced or not, and counts below zero."""
  schedule = unit(shape, 100)
  for count, value in values.items():
    kinds = [count, np.float32(count), jnp.float32(count)]
    if count == int(count):
      kinds += [int(count), np.int32(count), jnp.int32(count)]
    found = [schedule(kind) for kind in kinds]
    found += [jax.jit(schedule)(kind) for kind in kinds[2::3]]
    np.testing.assert_allclose(found, value, rtol=1e-6, atol=2e-7)
  if 0 in values:
    np.testing.assert_allclose(schedule(-1.5), values[0], rtol=1e-6)


EXAMPLE = re.compile(
  r'Example:\s+(.*?)\s+over\s+(\d+)\s+steps\s+is\s+(.*?)\.\n\n', re.S
)


@pytest.mark.parametrize(
  ('kind', 'name'),
  [
    (kind, name)
    for kind, registry in KINDS.items()
    for name in registry
    # Their example would be a function.
    if name not in ('lambda', 'multiplicative')
  ],
)
def test_the_example_of_every_docstring_is_true(kind, name):
  text = inspect.getdoc(KINDS[kind][name].make) + '\n\n'
  shape, steps, values = EXAMPLE.search(text).groups()
  shape = ast.literal_eval(shape)
  assert shape['name'] == name
  pairs = [re.split(r'\s+at\s+', pair) for pair in re.split(r',\s+', values)]
  assert len(pairs) >= 2
  rates = read(unit(shape, int(steps), kind), [float(t) for _, t in pairs])
  assert_close(rates, [float(value) for value, _ in pairs], 1.0)


def test_every_shape_is_tried():
  assert {s['name'] for s in ALL} == set(DECAYS)
  assert {s['name'] for s in shape_examples.WARMUPS} == set(WARMUPS)
  assert {name_in(shape) for shape, _ in BY_HAND} == set(DECAYS)


@pytest.mark.parametrize(
  'shape', [s for s in ALL if s['name'] != 'multiplicative'], ids=label
)
def test_a_shape_is_the_same_over_any_number_of_steps(shape):
  # All parts are whole steps of 840.
  shares = np.linspace(0.0006, 0.9994, 100)
  short = read(unit(shape, 840), 840 * shares)
  long = read(unit(shape, 8400), 8400 * shares)
  # The share comes from a count that was rounded: slopes of up to 40 per phase.
  np.testing.assert_allclose(short, long, rtol=0, atol=50 * TOLERANCE)


@pytest.mark.parametrize('steps', (1, 3))
def test_phases_of_few_steps(steps):
  counts = np.arange(-1, steps + 3)
  for shape in ALL:
    rates = read(unit(shape, steps), counts)
    assert np.all(np.isfinite(rates)), shape
    assert np.all((rates >= 0) & (rates <= 1 + TOLERANCE)), shape
  for shape in shape_examples.WARMUPS:
    rates = read(unit(shape, steps, 'warmup'), counts)
    assert np.all((rates >= 0) & (rates <= 1 + TOLERANCE)), shape


@pytest.mark.parametrize('kind', KINDS)
def test_one_name_is_one_formula(kind):
  """Plain, as an object, within a chain, with its defaults written out."""
  counts = np.arange(201)
  for name, part in KINDS[kind].items():
    defaults = {key: p.default for key, p in part.parameters.items()}
    if {'shapes', 'function'} & set(defaults):
      continue
    written = [name, {'name': name}, {'name': name, **defaults}]
    if kind == 'decay':
      written.append({'name': 'sequential', 'shapes': [name]})
      written.append({'name': 'chained', 'shapes': [{'name': name}]})
    curves = [read(unit(shape, 200, kind), counts) for shape in written]
    for curve in curves[1:]:
      np.testing.assert_array_equal(curve, curves[0])
    assert KINDS[kind].read('', written[0]) == KINDS[kind].read('', written[1])


def test_the_holding_decays_hold_longer_after_a_warm_up():
  # L = 200 and W = 30: 1 for 30 + 40 steps, of the 170.
  phase, counts = Phase(170, 30), [0, 70, 130, 190]
  decay = DECAYS.make('holding_exponential', phase)
  assert_close(read(decay, counts), [1, 1, 0.1**0.5, 0.1], 1.0)
  # Down to 0 over 160 - 60 steps, which is the end.
  decay = DECAYS.make('holding_linear', phase)
  assert_close(read(decay, [0, 70, 120, 170]), [1, 1, 0.5, 0], 1.0)


# For each parameter a value that is not its default, and what else it needs.
SHAPES = ('cosine', 'constant')
EFFECTS = {
  'warmup': {
    'linear': {'start': 0.5},
    'cosine': {'start': 0.5},
    'exponential': {'start': 0.5},
    'none': {},
    'polynomial': {'start': 0.5, 'power': 2.0},
  },
  'decay': {
    'cosine': {'floor': 0.5},
    'linear': {'floor': 0.5},
    'holding_exponential': {},
    'holding_linear': {},
    'step': {'factor': 0.5, 'at': [0.5]},
    'constant': {},
    'polynomial': {
      'start': 0.5,
      'end': 0.5,
      'power': 2.0,
      'share': 0.5,
      'cycle': (True, {'share': 0.5}),
    },
    'exponential': {'factor': 0.5, 'share': 0.5, 'staircase': True},
    'inverse_time': {
      'rate': 1.0,
      'exponent': 2.0,
      'share': 0.5,
      'staircase': True,
    },
    'inverse_power': {
      'exponent': 1.0,
      'hold': 0.5,
      'cooldown': 0.5,
      'fall': ('sqrt', {'cooldown': 0.5}),
      'floor': (0.1, {'cooldown': 0.5}),
    },
    'k_decay_cosine': {'k': 2.0, 'floor': 0.5, 'cooldown': 0.5},
    'cosine_annealing': {'floor': 0.5, 'share': 0.2},
    'cosine_warm_restarts': {'periods': 2, 'multiplier': 2.0, 'floor': 0.5},
    'piecewise_constant': {'values': [1, 0.7, 0.2], 'at': [0.3, 0.7]},
    'cyclic': {
      'periods': 2,
      'rise': 0.2,
      'floor': 0.5,
      'mode': 'triangular2',
      'gamma': (0.5, {'mode': 'exp_range'}),
    },
    'one_cycle': {
      'start': 0.5,
      'end': 0.5,
      'rise': 0.2,
      'three_phase': True,
      'anneal': 'linear',
    },
    'wsd': {'checkpoints': 2, 'decay': 0.5, 'fall': 'sqrt', 'floor': 0.5},
    'sequential': {
      'shapes': (['constant', 'cosine'], {'shapes': SHAPES, 'at': [0.5]}),
      'at': ([0.2], {'shapes': SHAPES, 'at': [0.5]}),
      'peaks': ([1, 0.5], {'shapes': SHAPES, 'at': [0.5]}),
    },
    'chained': {'shapes': (['wsd'], {'shapes': ['cosine']})},
    'lambda': {'function': (lambda u: 1 - u, {'function': lambda u: u})},
    'multiplicative': {'function': (lambda t: 0.5, {'function': lambda t: 1})},
  },
}
PARAMETERS = [
  (kind, name, key)
  for kind, shapes in EFFECTS.items()
  for name, parameters in shapes.items()
  for key in parameters
]


def test_every_parameter_is_tried():
  tried = {k: {n: set(p) for n, p in f.items()} for k, f in EFFECTS.items()}
  assert tried == {
    kind: {name: set(part.parameters) for name, part in registry.items()}
    for kind, registry in KINDS.items()
  }


@pytest.mark.parametrize(('kind', 'name', 'key'), PARAMETERS)
def test_every_parameter_changes_the_curve(kind, name, key):
  value, others = EFFECTS[kind][name][key], {}
  if isinstance(value, tuple):
    value, others = value
  curves = [
    read(unit({'name': name, **given}, 60, kind), np.arange(61))
    for given in (others, {**others, key: value})
  ]
  assert np.max(np.abs(curves[0] - curves[1])) > 0.01


# How shapes are written.


def test_a_shape_is_hashable_and_equal_to_what_says_the_same():
  a = DECAYS.read('', {'name': 'wsd', 'decay': 0.1, 'floor': 0.2})
  b = DECAYS.read('', {'floor': 0.2, 'decay': 0.1, 'name': 'wsd'})
  c = DECAYS.read('', {'name': 'wsd', 'decay': 0.1, 'floor': 0.3})
  assert a == b != c
  assert len({a, b, c}) == 2
  assert DECAYS.read('', a) == a
  assert a.parameters == (('decay', 0.1), ('floor', 0.2))
  assert str(a) == 'wsd(decay=0.1, floor=0.2)'


def test_a_name_without_parameters_is_the_name():
  assert DECAYS.read('', 'wsd') == 'wsd'
  assert DECAYS.read('', {'name': 'wsd'}) == 'wsd'
  assert DECAYS.read('', Named('wsd', ())) == 'wsd'


@pytest.mark.parametrize('shape', ALL, ids=label)
def test_plain_values_are_read_back(shape):
  read_once = DECAYS.read('', shape)
  plain = as_plain(read_once)
  assert DECAYS.read('', plain) == read_once
  hash(read_once)
  expected = shape if len(shape) > 1 else shape['name']
  assert plain == as_tuples(expected)


def as_tuples(value):
  if isinstance(value, dict):
    return {key: as_tuples(v) for key, v in value.items()}
  return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def test_nested_shapes():
  shape = DECAYS.read('', shape_examples.DECAYS[-1])
  assert str(shape) == (
    'chained(shapes=[polynomial(end=0.9, start=0.3), exponential(factor=0.5), '
    'cosine])'
  )
  assert not has_function(shape)
  assert has_function(DECAYS.read('', shape_examples.WITH_FUNCTIONS[-1]))


def with_name(**parameters):
  return {'name': parameters.pop('of'), **parameters}


BAD = (
  ({}, 'x: name is missing; it says which shape is meant.'),
  ({'k': 1.5}, 'x: name is missing'),
  (with_name(of='cosin'), "x='cosin': x must be one of cosine, linear, "),
  (with_name(of=['cosine']), r"x=\['cosine'\]: x must be one of cosine"),
  (with_name(of='cosin', k=1), "x.name='cosin': x.name must be one of cosine"),
  (
    with_name(of='k_decay_cosine', kk=1),
    'x: k_decay_cosine has no parameter kk; it has cooldown, floor, k.',
  ),
  (
    with_name(of='constant', floor=1),
    'x: constant has no parameter floor; it has none.',
  ),
  (with_name(of='lambda'), 'x: lambda needs function.'),
  ('sequential', 'x: sequential needs shapes.'),
  (
    with_name(of='lambda', function='cos'),
    "x.function='cos': x.function must be a Python function, which JSON cannot "
    'hold.',
  ),
  (with_name(of='k_decay_cosine', k=0), 'x.k=0: x.k must be a number above 0'),
  (with_name(of='k_decay_cosine', k=True), 'x.k=True: x.k must be a number'),
  (
    with_name(of='cosine', floor=1.0),
    'x.floor=1.0: x.floor must be a number from 0 up to, not including, 1.',
  ),
  (
    with_name(of='exponential', share=0),
    'x.share=0: x.share must be a number above 0 and at most 1.',
  ),
  (
    with_name(of='exponential', staircase=1),
    'x.staircase=1: x.staircase must be true or false.',
  ),
  (
    with_name(of='inverse_time', rate=-1),
    'x.rate=-1: x.rate must be a number of at least 0.',
  ),
  (
    with_name(of='inverse_power', cooldown=1.1),
    'x.cooldown=1.1: x.cooldown must be a number from 0 to 1.',
  ),
  (
    # (0.05 / 0.5)^(1/2) = 0.316
    with_name(of='inverse_power', cooldown=0.5, floor=0.32),
    'x: inverse_power: floor must not be above where the cool-down starts.',
  ),
  (
    with_name(of='inverse_power', cooldown=0.5, fall='inverse'),
    'x: inverse_power: floor must be above 0 for an inverse fall.',
  ),
  (
    with_name(of='wsd', fall='inverse'),
    'x: wsd: floor must be above 0 for an inverse fall.',
  ),
  (
    with_name(of='wsd', checkpoints=1.5),
    'x.checkpoints=1.5: x.checkpoints must be a whole number of at least 1.',
  ),
  (
    with_name(of='wsd', fall='cosine'),
    "x.fall='cosine': x.fall must be one of linear, sqrt, inverse.",
  ),
  (
    with_name(of='polynomial', cycle=True, share=9e-5),
    'x: polynomial: share must be at least 0.0001 if cycle is true.',
  ),
  (
    with_name(of='inverse_time', rate=1e39),
    r'x.rate=1e\+39: x.rate must be a number of at least 0, at most',
  ),
  (
    with_name(of='cyclic', mode='triangle'),
    "x.mode='triangle': x.mode must be one of triangular, triangular2, "
    'exp_range. Did you mean triangular',
  ),
  (
    with_name(of='one_cycle', anneal='cos'),
    "x.anneal='cos': x.anneal must be one of cosine, linear. Did you mean cos",
  ),
  (
    with_name(of='cosine_warm_restarts', multiplier=0.5),
    'x.multiplier=0.5: x.multiplier must be a number of at least 1.',
  ),
  (
    with_name(of='step', at=[0.5, 0.5]),
    r'x.at=\[0.5, 0.5\]: x.at must be in rising order.',
  ),
  (
    with_name(of='step', at=[0.5, 1]),
    r'x.at\[1\]=1: x.at\[1\] must be a number above 0 and below 1.',
  ),
  (with_name(of='step', at=0.5), 'x.at=0.5: x.at must be a list.'),
  (
    with_name(of='piecewise_constant', values=[1, 2]),
    'x: piecewise_constant: values has 2 entries and at 2; values must have '
    'one more than at.',
  ),
  (
    with_name(of='one_cycle', rise=0.5, three_phase=True),
    'x: one_cycle: rise must be below 0.5 with three_phase',
  ),
  (
    with_name(of='sequential', shapes=['cosine', 'wsd'], at=[]),
    'x: sequential: shapes has 2 entries and at 0; shapes must have one more',
  ),
  (
    with_name(of='sequential', shapes=['cosine'], peaks=[1, 2]),
    'x: sequential: peaks must have one entry per shape, or none for peaks of',
  ),
  (
    with_name(of='chained', shapes=[]),
    r'x.shapes=\[\]: x.shapes must be a list of at least one shape.',
  ),
  (
    with_name(of='chained', shapes=['cosine', 'wds']),
    r"x.shapes\[1\]='wds': x.shapes\[1\] must be one of cosine, ",
  ),
  (
    with_name(of='chained', shapes=[with_name(of='wsd', decay=2)]),
    r'x.shapes\[0\].decay=2: x.shapes\[0\].decay must be a number above 0 and',
  ),
)


@pytest.mark.parametrize(('shape', 'message'), BAD, ids=lambda x: str(x)[:40])
def test_what_is_refused(shape, message):
  with pytest.raises(ValueError, match=f'^{message}') as error:
    DECAYS.read('x', shape)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('steps', [334, 1046, 999, 36_189])
@pytest.mark.parametrize('share', [0.1, 0.05, 0.3])
def test_jumps_at_shares_of_a_phase_are_not_a_step_late(steps, share):
  # The jumps are at the first whole step at or after i * share * steps.
  part = Fraction(repr(share)) * steps
  jumps = np.array([math.ceil(i * part) for i in range(1, int(1 / share) + 1)])
  stairs = shape_schedule(
    steps, name='exponential', share=share, factor=0.5, staircase=True
  )
  expected = 0.5 ** np.arange(1, len(jumps) + 1)
  np.testing.assert_array_equal(stairs(jumps), expected)
  np.testing.assert_array_equal(stairs(jumps - 1), 2 * expected)
  # A polynomial with `cycle` is 0 at each of its whole ends.
  saw = shape_schedule(steps, name='polynomial', share=share, cycle=True)
  ends = np.array([math.floor(i * part) for i in range(1, len(jumps) + 1)])
  np.testing.assert_array_equal(saw(ends), 0.0)
  assert np.all(saw(ends[:-1] + 1) > 0)


def shape_schedule(steps, **shape):
  """The shape over a phase, compiled for many counts."""
  compiled = jax.jit(jax.vmap(unit(shape, steps)))
  return lambda counts: np.asarray(compiled(counts.astype(np.int32)))


@pytest.mark.parametrize('steps', [2, 3, 4, 5])
def test_a_short_phase_decays_all_the_same(steps):
  wsd = shape_schedule(steps, name='wsd')
  assert wsd(np.array([0, steps])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize('name', ['cosine_warm_restarts', 'cyclic'])
def test_too_many_periods_are_refused(name):
  shape = {'name': name, 'periods': 101}
  with pytest.raises(ValueError, match=r'x.periods=101.* from 1 to 100'):
    DECAYS.read('x', shape)


@pytest.mark.parametrize('share', (1e-300, 9e-5))
def test_tiny_shares_take_no_time(share):
  stairs = {'factor': 0.5, 'share': share, 'staircase': True}
  rates = shape_schedule(1000, name='exponential', **stairs)(
    np.array([0, 1000])
  )
  assert rates[1] == 0.0
  straight = shape_schedule(1000, name='polynomial', share=share)
  assert straight(np.array([0, 1, 1000])).tolist() == [1.0, 0.0, 0.0]


def test_warmups_are_refused_that_start_too_low():
  shape = {'name': 'exponential', 'start': 1e-39}
  with pytest.raises(
    ValueError, match='x: exponential: start must be at least'
  ):
    WARMUPS.read('x', shape)


def test_more_stairs_than_can_be_told_apart_are_a_curve():
  shape = {'share': 0.01, 'exponent': 300.0, 'staircase': True}
  values = shape_schedule(1000, name='inverse_time', **shape)(
    np.array([0, 5, 100, 1000])
  )
  assert values.tolist() == [1.0, 1.0, 0.0, 0.0]

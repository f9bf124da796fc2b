"""Settings that name a part: how they are read, refused, printed and made."""

from __future__ import annotations

import dataclasses

import pytest

from reset_cycles.settings.kinds import (
  BelowOne,
  Choice,
  Count,
  Function,
  Kind,
  ListOf,
  Share,
)
from reset_cycles.settings.named import (
  REQUIRED,
  Named,
  Registry,
  as_plain,
  given_parameters,
  has_function,
  name_of,
  read_fields,
)

FRUITS = Registry('fruit')
Colour = Choice('red', 'green')


@FRUITS.register
def plum(weight, *, stone: BelowOne = 0.5):
  return ('plum', weight, stone)


@FRUITS.register(check=lambda p: '' if p['seeds'] > 1 else 'too few seeds')
def apple(weight, *, seeds: Count = 5, colour: Colour = 'red'):
  return ('apple', weight, seeds, colour)


@FRUITS.register(name='from')
def of_function(weight, *, function: Function):
  return function(weight)


Fruits = ListOf(FRUITS.as_kind(), 'a list of at least one fruit', least=1)


@FRUITS.register
def salad(weight, *, fruits: Fruits, shares: ListOf(Share) = ()):
  return [FRUITS.make(fruit, weight) for fruit in fruits]


@FRUITS.register(name='basket')
@dataclasses.dataclass(frozen=True)
class Basket:
  size: Count
  fruits: Fruits = ('plum',)


def test_parameters_are_those_of_the_signature():
  apple_has = FRUITS.parameters('apple')
  assert {n: p.default for n, p in apple_has.items()} == {
    'seeds': 5,
    'colour': 'red',
  }
  assert apple_has['seeds'].kind.right == 'a whole number of at least 1'
  assert apple_has['colour'].kind.right == 'one of red, green'
  basket_has = FRUITS.parameters('basket')
  assert list(basket_has) == ['size', 'fruits']
  assert basket_has['size'].default is REQUIRED
  assert basket_has['fruits'].default == ('plum',)
  assert list(FRUITS) == ['plum', 'apple', 'from', 'salad', 'basket']


@pytest.mark.parametrize(
  ('value', 'setting'),
  (
    ('plum', 'plum'),
    ({'name': 'plum'}, 'plum'),
    (Named('plum', ()), 'plum'),
    ({'name': 'plum', 'stone': 0.25}, Named('plum', (('stone', 0.25),))),
    (
      {'seeds': 3, 'name': 'apple', 'colour': 'green'},
      Named('apple', (('colour', 'green'), ('seeds', 3))),
    ),
    (
      {'name': 'salad', 'fruits': ['plum', {'name': 'apple', 'seeds': 2}]},
      Named('salad', (('fruits', ('plum', Named('apple', (('seeds', 2),)))),)),
    ),
  ),
)
def test_what_is_read(value, setting):
  read = FRUITS.read('x', value)
  assert read == setting
  assert FRUITS.read('x', read) == read
  assert FRUITS.read('x', as_plain(read)) == read
  hash(read)


def test_parts_are_made_with_their_own_defaults():
  def make(value):
    return FRUITS.make(FRUITS.read('x', value), 7)

  assert make('apple') == ('apple', 7, 5, 'red')
  assert make({'name': 'apple', 'seeds': 2}) == ('apple', 7, 2, 'red')
  assert make({'name': 'from', 'function': lambda w: w + 1}) == 8
  assert make({'name': 'salad', 'fruits': ['plum', 'apple']}) == [
    ('plum', 7, 0.5),
    ('apple', 7, 5, 'red'),
  ]
  basket = FRUITS.read('x', {'name': 'basket', 'size': 3})
  assert FRUITS.make(basket) == Basket(3, ('plum',))


def test_text_and_plain_values():
  fruits = ['plum', {'name': 'apple', 'seeds': 2}]
  salad_setting = FRUITS.read('x', {'name': 'salad', 'fruits': fruits})
  assert str(salad_setting) == 'salad(fruits=[plum, apple(seeds=2)])'
  assert as_plain(salad_setting) == {'name': 'salad', 'fruits': tuple(fruits)}
  assert as_plain((salad_setting, 'plum'))[1] == 'plum'
  assert (name_of(salad_setting), name_of('plum')) == ('salad', 'plum')
  assert given_parameters('plum') == {}
  assert list(given_parameters(salad_setting)) == ['fruits']


def test_functions_are_found_however_deep():
  function = {'name': 'from', 'function': max}
  nested = FRUITS.read('x', {'name': 'salad', 'fruits': ['plum', function]})
  assert has_function(nested)
  assert has_function(('plum', nested))
  assert not has_function(('plum', FRUITS.read('x', 'apple')))
  assert str(FRUITS.read('x', function)) == 'from(function=max)'


BAD = (
  ({}, 'x: name is missing; it says which fruit is meant.'),
  ({'seeds': 3}, 'x: name is missing; it says which fruit is meant.'),
  (
    'aple',
    "x='aple': x must be one of plum, apple, from, salad, basket. Did you mean "
    'apple?',
  ),
  (3, 'x=3: x must be one of plum, apple, from, salad, basket.'),
  (
    ['plum'],
    "x=['plum']: x must be one of plum, apple, from, salad, basket. Did you "
    'mean plum?',
  ),
  (
    {'name': 'aple', 'seeds': 3},
    "x.name='aple': x.name must be one of plum, apple, from, salad, basket. Did "
    'you mean apple?',
  ),
  (
    {'name': 'apple', 'seed': 3},
    'x: apple has no parameter seed; it has colour, seeds. Did you mean seeds?',
  ),
  ({'name': 'plum', 3: 3}, 'x: plum has no parameter 3; it has stone.'),
  ({'name': 'apple', 'seeds': 1}, 'x: apple: too few seeds.'),
  (
    {'name': 'apple', 'seeds': 0},
    'x.seeds=0: x.seeds must be a whole number of at least 1.',
  ),
  (
    {'name': 'apple', 'colour': 'gren'},
    "x.colour='gren': x.colour must be one of red, green. Did you mean green?",
  ),
  ('from', 'x: from needs function.'),
  (
    {'name': 'from', 'function': 'cos'},
    "x.function='cos': x.function must be a Python function, which JSON cannot "
    'hold.',
  ),
  (
    {'name': 'salad', 'fruits': []},
    'x.fruits=[]: x.fruits must be a list of at least one fruit.',
  ),
  (
    {'name': 'salad', 'fruits': ['plum', {'name': 'plum', 'stone': 1}]},
    'x.fruits[1].stone=1: x.fruits[1].stone must be a number from 0 up to, not '
    'including, 1.',
  ),
  ({'name': 'basket'}, 'x: basket needs size.'),
)


@pytest.mark.parametrize(('value', 'message'), BAD, ids=lambda x: str(x)[:40])
def test_what_is_refused(value, message):
  with pytest.raises(ValueError) as error:
    FRUITS.read('x', value)
  assert str(error.value) == message


def test_a_registry_on_another_has_its_parts_too():
  more = Registry('fruit', FRUITS)

  @more.register
  def fig(weight):
    return ('fig', weight)

  assert list(more) == [*FRUITS, 'fig']
  assert more.make(more.read('x', 'fig'), 1) == ('fig', 1)
  assert more.make('plum', 1) == ('plum', 1, 0.5)
  assert 'fig' not in FRUITS
  with pytest.raises(ValueError, match="name='plum': there is a fruit of this"):
    more.register(plum)


def test_a_parameter_without_a_kind_is_refused_at_once():
  def pear(weight, *, length: float = 1.0):
    return (weight, length)

  with pytest.raises(TypeError, match='pear: length must be annotated with'):
    FRUITS.register(pear)
  assert 'pear' not in FRUITS


@dataclasses.dataclass(frozen=True)
class Box:
  size: Count
  shares: ListOf(Share) = ()

  def __post_init__(self):
    read_fields(self)


def test_fields_of_a_dataclass_are_read_by_their_kinds():
  assert Box(2, [0.5, 1]).shares == (0.5, 1)
  with pytest.raises(ValueError, match=r'^shares\[0\]=0: shares\[0\] must be'):
    Box(2, [0])
  with pytest.raises(ValueError, match=r'^size=0.5: size must be a whole'):
    Box(0.5)


def test_a_registry_is_a_kind():
  kind = FRUITS.as_kind().__metadata__[0]
  assert isinstance(kind, Kind)
  assert kind.right == 'a fruit'
  assert kind.read('y', {'name': 'plum'}) == 'plum'

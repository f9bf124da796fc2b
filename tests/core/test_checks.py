"""What is wrong with a setting, and what would be right."""

import dataclasses
import math
from typing import Annotated, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.core import checks
from reset_cycles.core.schedules import Cooldown, Cosine
from reset_cycles.schedule_params import SOFT_RESET, THESIS
from reset_cycles.shapes.simple import InversePower


def said(check, *args):
  """The message, or '' where nothing is wrong."""
  try:
    check(*args)
  except ValueError as error:
    return str(error)
  return ''


NUMBER, COUNT = 'a number in {}', 'a whole number of at least {}'
FLAG, CHOICE = 'True or False', 'one of {}'


@pytest.mark.parametrize(
  ('right', 'argument', 'good', 'bad'),
  (
    (NUMBER, '[0, 1]', (0.0, 1.0), (-1e-12, 1 + 1e-12, True, '.5', None, 1j)),
    (NUMBER, '(0, 1]', (1.0,), (0.0,)),
    (NUMBER, '[0, 1)', (0, np.float32(0.5)), (1.0,)),
    (NUMBER, '(-inf, inf)', (-5,), (math.nan,)),
    (NUMBER, '[0, inf)', (2,), (math.inf, 10**400)),
    (COUNT, 1, (1, np.int32(3)), (0, 2.0, True)),
    (COUNT, 0, (0,), (-1,)),
    (COUNT, 2, (2,), (1,)),
    (FLAG, None, (True, False), (0, 1, 'yes', None)),
    (CHOICE, ('log', 'linear'), ('log', 'linear'), ('quadratic', 3, None)),
  ),
  ids=repr,
)
def test_what_is_right_and_what_is_said_of_the_rest(right, argument, good, bad):
  check = {
    NUMBER: checks.check_number,
    COUNT: checks.check_count,
    FLAG: lambda name, value, _: checks.check_flag(name, value),
    CHOICE: checks.check_choice,
  }[right]
  shown = ', '.join(argument) if right == CHOICE else argument
  for value in good:
    assert said(check, 'it', value, argument) == ''
  for value in bad:
    expected = f'it={value!r}: must be {right.format(shown)}.'
    assert said(check, 'it', value, argument) == expected


def test_a_choice_that_is_close_is_named():
  found = said(checks.check_choice, 'scale', 'logg', ('log', 'linear'))
  assert found.endswith('must be one of log, linear. Did you mean log?')


class Tool(Protocol):
  name: str

  def cut(self): ...

  def __call__(self, x): ...


class Knife:
  def cut(self):
    return 'cut'

  def __call__(self, x):
    return x


def whole_word(name, value):
  checks.check(' ' not in value, name, value, 'a whole word')


@dataclasses.dataclass(frozen=True)
class Settings(checks.Checked):
  is_on: bool = True
  rate: checks.Floor = 0.5
  limit: checks.Positive | None = None
  count: Annotated[int, '[0, 9]'] = 3
  many: checks.Count = 1
  kind: Annotated[str, ('log', 'linear')] = 'log'
  numbers: tuple[checks.NonNegative, ...] = ()
  shares: Annotated[tuple[float, ...], checks.check_shares] = ()
  tool: Annotated[Tool, 'a tool such as Knife()'] = Knife()
  word: Annotated[str, whole_word] | None = 'one'
  free: object = None


@pytest.mark.parametrize(
  ('field', 'value', 'message'),
  (
    ('is_on', 1, 'is_on=1: must be True or False.'),
    ('rate', 1.0, 'rate=1.0: must be a number in [0, 1).'),
    ('rate', None, 'rate=None: must be a number in [0, 1).'),
    ('limit', 0, 'limit=0: must be a number in (0, inf).'),
    (
      *('count', 10),
      'count=10: must be a whole number of at least 0 and at most 9.',
    ),
    ('many', 0, 'many=0: must be a whole number of at least 1.'),
    (
      *('kind', 'lin'),
      "kind='lin': must be one of log, linear. Did you mean linear?",
    ),
    ('numbers', (1, -1), 'numbers[1]=-1: must be a number in [0, inf).'),
    ('numbers', 1, 'numbers=1: must be a tuple of numbers in [0, inf).'),
    ('shares', [0.5, 0.5], 'shares=[0.5, 0.5]: must be in rising order.'),
    ('tool', Knife, f'tool={Knife!r}: must be a tool such as Knife().'),
    (
      'tool',
      len,
      f'tool={len!r}: must be a tool such as Knife() (it lacks cut).',
    ),
    ('word', 'two words', "word='two words': must be a whole word."),
  ),
)
def test_fields_are_checked_by_their_types(field, value, message):
  with pytest.raises(ValueError) as refusal:
    Settings(**{field: value})
  assert str(refusal.value) == message


def test_fields_take_what_their_types_say():
  given = {'limit': 2, 'count': 0, 'numbers': [0, 2], 'shares': [0.25, 0.5]}
  settings = Settings(**given, word=None, free='anything')
  assert (settings.numbers, settings.shares) == ((0, 2), (0.25, 0.5))
  assert Settings(count=9, many=10**6, limit=None).limit is None


def test_fields_of_a_class_above_are_checked_as_well():
  @dataclasses.dataclass(frozen=True)
  class Further(Settings):
    share: checks.Share = 1.0

  with pytest.raises(ValueError, match='^rate=2'):
    Further(rate=2)
  with pytest.raises(ValueError, match='^share=0'):
    Further(share=0)


def test_a_value_at_a_path():
  given = SOFT_RESET
  at = checks.replaced_at
  assert at(given, 'repeat', False) == dataclasses.replace(given, repeat=False)
  reset = dataclasses.replace(given.reset, fade=0.25)
  changed = dataclasses.replace(given, reset=reset)
  assert at(given, 'reset.fade', 0.25) == changed
  assert at(given, 'reset', reset) == changed
  assert given.reset.fade == 2.0
  assert at(given, 'horizon', None).horizon is None
  assert [c.peak for c in at(given, 'cycles.peak', 0.5).cycles] == [0.5] * 4
  peaks = [c.peak for c in at(given, 'cycles[1].peak', 0.5).cycles]
  assert peaks == [0.0025, 0.5, 0.0025, 0.0025]
  decays = [c.decay for c in at(given, 'cycles[3].decay.share', 0.5).cycles]
  assert decays == [Cooldown(0.1)] * 3 + [Cooldown(0.5)]
  decays = [c.decay for c in at(THESIS, 'cycles[0].decay', Cooldown()).cycles]
  assert decays == [Cooldown(), Cosine(), Cosine()]


@pytest.mark.parametrize(
  ('path', 'value', 'message'),
  (
    ('reset.fade', -1, 'reset.fade=-1: must be a number in [0, inf).'),
    (
      *('reset.fad', 1),
      'reset.fad=1: SoftReset has no such field; it has alpha, scale, fade, '
      'expected. Did you mean fade?',
    ),
    ('cycles.peak', 0, 'cycles.peak=0: must be a number in (0, inf).'),
    ('cycles[1].peak', 0, 'cycles[1].peak=0: must be a number in (0, inf).'),
    (
      *('cycles[4].peak', 1),
      'cycles[4].peak=1: must be at an index below 4, the number of cycles.',
    ),
    (
      *('reset[0].fade', 1),
      'reset[0].fade=1: must be at a path without [0]: reset is no list.',
    ),
    (
      *('cycles[2].decay.share', 2),
      'cycles[2].decay.share=2: must be a number in (0, 1].',
    ),
    (
      *('repeat.x', 1),
      'repeat.x=1: bool has no such field; it has none.',
    ),
    ('repeat', 1, 'repeat=1: must be True or False.'),
  ),
)
def test_a_path_or_a_value_that_is_wrong(path, value, message):
  with pytest.raises(ValueError) as refusal:
    checks.replaced_at(SOFT_RESET, path, value)
  assert str(refusal.value) == message


@pytest.mark.parametrize('path', ('', '.', 'cycles[', 'cycles[x].peak', 'a.b'))
def test_a_path_that_leads_nowhere(path):
  with pytest.raises(ValueError, match='ScheduleParams has no such field'):
    checks.replaced_at(SOFT_RESET, path, 1)


def test_a_value_that_another_field_excludes():
  shape = InversePower(cooldown=0.5)
  settings = checks.replaced_at(THESIS, 'cycles.decay', shape)
  with pytest.raises(ValueError) as refusal:
    checks.replaced_at(settings, 'cycles[1].decay.fall', 'inverse')
  assert str(refusal.value) == (
    "cycles[1].decay.fall='inverse': floor=0.0: must be above 0 with "
    "fall='inverse'."
  )


@pytest.mark.parametrize('dtype', ('bfloat16', 'float32', 'int8'))
def test_types_in_which_an_eps_is_not_0(dtype):
  params = {'a': jax.ShapeDtypeStruct((2,), jnp.dtype(dtype))}
  assert said(checks.check_precision, 'params', params) == ''


def test_a_type_in_which_an_eps_is_0():
  params = {'a': np.zeros(2, np.float32), 'b': [np.zeros(2, np.float16)]}
  assert said(checks.check_precision, 'params', params) == (
    "dtype of params['b'][0]='float16': must be bfloat16, float32 or float64, "
    'in which 1e-8 is not 0.'
  )
  assert said(checks.check_precision, 'params', params, {"['b'][0]"}) == ''

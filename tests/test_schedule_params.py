"""The configuration: its values, its checks, JSON and overriding."""

from __future__ import annotations

import collections
import dataclasses
import json
import math

import numpy as np
import pytest

from reset_cycles.schedule_params import (
  HPARAMS,
  SCHEDULE_PARAMS,
  Hparams,
  ScheduleParams,
)

NAN, INF = math.nan, math.inf
HUGE = 10**400  # an int that no float can hold


def test_hparams_are_those_of_the_thesis():
  assert dataclasses.asdict(HPARAMS) == {
    'dropout_rate': 0.1,
    'learning_rate': 0.0017486387539278373,
    'one_minus_beta1': 0.06733926164,
    'beta2': 0.9955159689799007,
    'weight_decay': 0.08121616522670176,
    'warmup_factor': 0.02,
    'eps': 1e-8,
    'grad_clip': None,
    'label_smoothing': 0.0,
  }


def test_default_is_that_of_the_thesis():
  values = SCHEDULE_PARAMS.to_dict()
  assert values.pop('hparams') == dataclasses.asdict(HPARAMS)
  assert values == {
    'warmups': ('linear', 'linear', 'linear'),
    'decays': ('cosine', 'cosine', 'cosine'),
    'alter_lr': (0.0, 0.0, 0.0),
    'alter_warmup': (0.0, 0.0, 0.0),
    'lengths': (1.0, 1.0, 1.0),
    'budget_factor': 2.0,
    'when_cycles_run_out': 'finish',
    'reset_mode': 'soft',
    'alpha': 0.5,
    # Figure 3.7.
    'early_switching': True,
    'switch_lam': 0.7,
    'switch_eps1': 0.01,
    'switch_eps2': 0.01,
    'switch_k': 9,
    'switch_m': 9,
    # A constant weight decay.
    'weight_decays': (),
    'alter_weight_decay': (),
  }
  assert SCHEDULE_PARAMS == ScheduleParams()
  assert SCHEDULE_PARAMS.num_cycles == 3


NO_NUMBERS = (NAN, INF, -INF, '0.1', None, True, [0.1], HUGE)
SHARE = 'a number from 0 up to, not including, 1'
POSITIVE = 'a number above 0'
AT_MOST_ONE = 'a number above 0 and at most 1'
COUNT = 'a whole number of at least 1'

# field, values that are wrong, what the message says to be right.
BAD_HPARAMS = (
  ('dropout_rate', (*NO_NUMBERS, -0.1, 1.0, 1.5), SHARE),
  ('beta2', (*NO_NUMBERS, -0.1, 1.0, 1.5), SHARE),
  ('label_smoothing', (*NO_NUMBERS, -0.1, 1.0), SHARE),
  ('learning_rate', (*NO_NUMBERS, 0.0, -1e-3), POSITIVE),
  ('eps', (*NO_NUMBERS, 0, -1e-8), POSITIVE),
  ('grad_clip', (NAN, INF, '1', True, 0.0, -1.0), POSITIVE),
  ('one_minus_beta1', (*NO_NUMBERS, 0.0, -0.1, 1.1), AT_MOST_ONE),
  ('weight_decay', (*NO_NUMBERS, -0.1), 'a number of at least 0'),
  ('warmup_factor', (*NO_NUMBERS, -0.1, 1.1), 'a number from 0 to 1'),
)
NO_SHAPES = (None, 3, '', 'Linear', ['linear'])
WARMUPS = 'one of linear, cosine, exponential, none'
DECAYS = 'one of cosine, linear, exponential, holding_exponential'
BAD_OF_A_CYCLE = (
  ('warmups', (*NO_SHAPES, 'step'), WARMUPS),
  ('decays', (*NO_SHAPES, 'none'), DECAYS),
  ('alter_lr', (*NO_NUMBERS, -0.1), 'the peak is positive'),
  ('alter_lr', (-HPARAMS.learning_rate,), 'the peak is positive'),
  ('alter_warmup', NO_NUMBERS, 'a number'),
  ('alter_warmup', (-0.03, -0.02001), 'at least 0: no negative warm-up'),
  ('alter_warmup', (0.981, 3.0), 'no warm-up longer than its cycle'),
  ('lengths', (*NO_NUMBERS, 0.0, -1.0), POSITIVE),
)
BAD_WEIGHT_DECAYS = (
  ('weight_decays', (*NO_SHAPES, 'none'), DECAYS),
  ('alter_weight_decay', (*NO_NUMBERS, -0.1), 'no weight decay is negative'),
)
NO_LISTS = (None, 3, 'linear', {'a': 1})
BAD_RULES = (
  *(
    (name, NO_LISTS, 'a list')
    for name, _, _ in BAD_OF_A_CYCLE + BAD_WEIGHT_DECAYS
  ),
  ('budget_factor', (*NO_NUMBERS, 0.0, -2.0), POSITIVE),
  ('when_cycles_run_out', (None, 'stop', True), 'one of finish, hold'),
  (
    'reset_mode',
    (None, 'none', 1),
    'one of soft, full, kept_momentum, cyclic',
  ),
  ('alpha', (*NO_NUMBERS, -0.1, 1.1), 'a number from 0 to 1'),
  ('early_switching', (None, 1, 'yes'), 'true or false'),
  ('switch_lam', (*NO_NUMBERS, 0.0, -0.1, 1.1), AT_MOST_ONE),
  ('switch_eps1', NO_NUMBERS, 'a number'),
  ('switch_eps2', NO_NUMBERS, 'a number'),
  ('switch_k', (0, -1, 9.0, 9.5, True, '9', None, NAN), COUNT),
  ('switch_m', (0, -1, 9.0, 9.5, True, '9', None, NAN), COUNT),
  ('hparams', (None, {}, 3), 'an Hparams'),
)


def cases(table):
  return [
    pytest.param(name, value, right, id=f'{name}={str(value)[:20]}')
    for name, values, right in table
    for value in values
  ]


def assert_refused(make, name, value, right):
  with pytest.raises(ValueError) as error:
    make()
  message = str(error.value)
  assert message.startswith(f'{name}={value!r}: {name} must be ')
  assert right in message
  assert '\n' not in message


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_HPARAMS))
def test_bad_hparams(name, value, right):
  assert_refused(lambda: Hparams(**{name: value}), name, value, right)
  assert_refused(
    lambda: SCHEDULE_PARAMS.override({name: value}), name, value, right
  )


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_RULES))
def test_bad_rules(name, value, right):
  assert_refused(lambda: ScheduleParams(**{name: value}), name, value, right)


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_OF_A_CYCLE))
def test_bad_values_of_a_cycle(name, value, right):
  values = [*getattr(SCHEDULE_PARAMS, name)[:2], value]
  assert_refused(
    lambda: ScheduleParams(**{name: values}), f'{name}[2]', value, right
  )


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_WEIGHT_DECAYS))
def test_bad_weight_decays(name, value, right):
  good = {'weight_decays': 'ratio', 'alter_weight_decay': 0.0}[name]
  assert_refused(
    lambda: ScheduleParams(**{name: (good, good, value)}),
    f'{name}[2]',
    value,
    right,
  )


def test_a_bad_parameter_of_a_shape_is_named():
  decays = ('cosine', {'name': 'wsd', 'decay': 2}, 'cosine')
  with pytest.raises(
    ValueError, match=r'^decays\[1\].decay=2: decays\[1\].dec'
  ):
    ScheduleParams(decays=decays)
  with pytest.raises(
    ValueError, match=r'^warmups\[0\]: none has no parameter k'
  ):
    ScheduleParams(warmups=({'name': 'none', 'k': 1}, 'linear', 'linear'))


@pytest.mark.parametrize(
  'values',
  (
    {'decays': ('cosine',)},
    {'weight_decays': ('ratio',) * 2},
    {'alter_weight_decay': (0.0,)},
    {'alter_lr': (0.0,) * 4},
    {'lengths': ()},
    {
      'warmups': (),
      'decays': (),
      'alter_lr': (),
      'alter_warmup': (),
      'lengths': (),
    },
  ),
)
def test_unequal_lists(values):
  with pytest.raises(ValueError) as error:
    ScheduleParams(**values)
  message = str(error.value)
  assert 'the same number in each and at least one' in message
  for name, entries in values.items():
    assert f'{name} has {len(entries)}' in message


@pytest.mark.parametrize('decay', ('holding_exponential', 'holding_linear'))
def test_no_room_for_a_decay_that_holds_the_peak(decay):
  # 2 W + 0.2 L has to be below L.
  decays = ('cosine', decay, 'cosine')
  with pytest.raises(
    ValueError, match=rf'alter_warmup\[1\].*below 0.4.*{decay}'
  ):
    ScheduleParams(decays=decays, alter_warmup=(0.5, 0.38, 0.5))
  ScheduleParams(decays=decays, alter_warmup=(0.5, 0.3799, 0.5))
  # 0.05 + 0.35 is 0.4, though not in binary floating point.
  with pytest.raises(ValueError, match='below 0.4'):
    ScheduleParams(
      decays=decays,
      alter_warmup=(0.35,) * 3,
      hparams=Hparams(warmup_factor=0.05),
    )
  # Without a warm-up there is room, whatever the factor.
  ScheduleParams(
    warmups=('linear', 'none', 'linear'),
    decays=decays,
    alter_warmup=(0.5, 0.6, 0.5),
  )


@pytest.mark.parametrize(
  'values',
  (
    {'alpha': 0},
    {'alpha': 1.0},
    {'switch_lam': 1},
    {'switch_eps1': -1.0},
    {'switch_k': 1, 'switch_m': 1},
    {'lengths': [1, 2, 3]},
    {'alter_lr': [-0.001, 0, 5]},
    {'alter_warmup': (-0.02, 0.98, 0)},
    {'budget_factor': 0.01},
    {'weight_decays': ['ratio', 'cosine', 'constant']},
    {'alter_weight_decay': [-HPARAMS.weight_decay, 0, 5]},
  ),
)
def test_good_values_at_the_ends(values):
  params = ScheduleParams(**values)
  for name, value in values.items():
    expected = tuple(value) if isinstance(value, list) else value
    assert getattr(params, name) == expected


def test_frozen():
  for instance, name in (
    (SCHEDULE_PARAMS, 'alpha'),
    (SCHEDULE_PARAMS, 'new'),
    (HPARAMS, 'learning_rate'),
  ):
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(instance, name, 0.3)


def test_a_list_that_changes_later_changes_nothing():
  lengths = [1.0, 1.0, 2.0]
  params = ScheduleParams(lengths=lengths)
  lengths[0] = 7.0
  assert params.lengths == (1.0, 1.0, 2.0)
  assert hash(params) == hash(ScheduleParams(lengths=(1.0, 1.0, 2.0)))


# No field has its default value.
SHAPES = (
  {
    'name': 'sequential',
    'shapes': ['wsd', {'name': 'step', 'at': [0.25, 0.5]}],
    'at': [0.5],
  },
  {'name': 'k_decay_cosine', 'k': 1.5},
)
CHANGED = ScheduleParams(
  warmups=('none', {'name': 'linear', 'start': 0.1}),
  decays=SHAPES,
  weight_decays=('ratio', {'name': 'polynomial', 'start': 0.0, 'end': 1.0}),
  alter_weight_decay=(0.01, 0.02),
  alter_lr=(0.1, 1 / 3),
  alter_warmup=(0.01, 0.05),
  lengths=(1.0, 2.5),
  budget_factor=1.5,
  when_cycles_run_out='hold',
  reset_mode='full',
  alpha=0.3,
  early_switching=False,
  switch_lam=0.6,
  switch_eps1=0.1,
  switch_eps2=0.2,
  switch_k=7,
  switch_m=8,
  hparams=Hparams(0.2, 0.01, 0.2, 0.99, 0.0, 0.1, 1e-6, 2.0, 0.1),
)


def test_no_field_is_missing_in_the_round_trip():
  for instance in (CHANGED, CHANGED.hparams):
    for field in dataclasses.fields(instance):
      assert getattr(instance, field.name) != field.default


@pytest.mark.parametrize('params', (SCHEDULE_PARAMS, CHANGED))
def test_json_round_trip(params):
  again = ScheduleParams.from_json(params.to_json())
  assert again == params
  assert ScheduleParams.from_dict(params.to_dict()) == params
  # Plain JSON: what is read is what was written, and no tuple is a list.
  assert isinstance(again.lengths, tuple)
  assert json.loads(params.to_json())['lengths'] == list(params.lengths)


def without(values, name):
  return {key: value for key, value in values.items() if key != name}


# Files that were written before these were fields are read, too.
NEWER = {'weight_decays', 'alter_weight_decay'}


@pytest.mark.parametrize(
  'name', [n for n in SCHEDULE_PARAMS.to_dict() if n not in NEWER]
)
def test_every_field_must_be_in_json(name):
  values = without(SCHEDULE_PARAMS.to_dict(), name)
  with pytest.raises(
    ValueError, match=f'schedule_params: missing field {name}'
  ):
    ScheduleParams.from_json(json.dumps(values))


def test_files_of_older_runs_are_read():
  values = {k: v for k, v in CHANGED.to_dict().items() if k not in NEWER}
  older = ScheduleParams.from_json(json.dumps(values))
  assert older == dataclasses.replace(
    CHANGED, weight_decays=(), alter_weight_decay=()
  )


def test_shapes_in_json():
  values = json.loads(CHANGED.to_json())
  assert values['decays'] == list(SHAPES)
  assert values['warmups'] == ['none', {'name': 'linear', 'start': 0.1}]
  assert values['weight_decays'][0] == 'ratio'
  again = ScheduleParams.from_dict(values)
  assert hash(again) == hash(CHANGED)
  # Made from shapes that were read before.
  assert dataclasses.replace(again, alpha=0.3) == CHANGED


@pytest.mark.parametrize('name', ('lambda', 'multiplicative'))
def test_functions_are_for_python_only(name):
  shape = {'name': name, 'function': math.sqrt}
  params = ScheduleParams(decays=('cosine', 'cosine', shape))
  assert params.has_function
  assert not CHANGED.has_function
  assert ScheduleParams.from_dict(params.to_dict()) == params
  with pytest.raises(ValueError, match='sqrt.* is a Python function.* no JSON'):
    params.to_json()
  values = SCHEDULE_PARAMS.to_dict()
  values['decays'] = ['cosine', 'cosine', {'name': name, 'function': 'sqrt'}]
  with pytest.raises(ValueError, match=r'decays\[2\].function=.*JSON cannot'):
    ScheduleParams.from_json(json.dumps(values))


@pytest.mark.parametrize('name', dataclasses.asdict(HPARAMS))
def test_every_hyperparameter_must_be_in_json(name):
  values = SCHEDULE_PARAMS.to_dict()
  values['hparams'] = without(values['hparams'], name)
  with pytest.raises(ValueError, match=f'hparams: missing field {name}'):
    ScheduleParams.from_json(json.dumps(values))


def test_unknown_keys_in_json():
  values = SCHEDULE_PARAMS.to_dict()
  with pytest.raises(ValueError, match='Unknown field alfa; known are alpha, '):
    ScheduleParams.from_dict({**without(values, 'alpha'), 'alfa': 0.5})
  values['hparams'] = {**values['hparams'], 'momentum': 0.9}
  with pytest.raises(ValueError, match='Unknown field momentum; known are '):
    ScheduleParams.from_dict(values)


@pytest.mark.parametrize('text', ('', '{', '[]', '3', 'null', '{}'))
def test_json_that_is_no_configuration(text):
  with pytest.raises(ValueError):
    ScheduleParams.from_json(text)


def test_bad_values_in_json_are_refused():
  values = {**SCHEDULE_PARAMS.to_dict(), 'alpha': 2}
  with pytest.raises(ValueError, match='alpha=2: alpha must be'):
    ScheduleParams.from_json(json.dumps(values))
  values = {**SCHEDULE_PARAMS.to_dict(), 'hparams': [1]}
  with pytest.raises(ValueError, match=r'hparams=\[1\]: hparams must be'):
    ScheduleParams.from_json(json.dumps(values))


OVERRIDES = {'learning_rate': 0.01, 'alpha': 0.25, 'alter_lr': [0.1, 0.2, 0.3]}


@pytest.mark.parametrize(
  'hyperparameters',
  (
    OVERRIDES,
    collections.namedtuple('Hyperparameters', OVERRIDES)(**OVERRIDES),
  ),
)
def test_override(hyperparameters):
  expected = ScheduleParams(
    alpha=0.25,
    alter_lr=(0.1, 0.2, 0.3),
    hparams=dataclasses.replace(HPARAMS, learning_rate=0.01),
  )
  assert SCHEDULE_PARAMS.override(hyperparameters) == expected
  assert SCHEDULE_PARAMS == ScheduleParams()


@pytest.mark.parametrize(
  'nothing', (None, {}, collections.namedtuple('Hyperparameters', ())())
)
def test_override_with_nothing(nothing):
  assert SCHEDULE_PARAMS.override(nothing) == SCHEDULE_PARAMS


def test_every_field_can_be_overridden():
  values = without(CHANGED.to_dict(), 'hparams')
  values.update(dataclasses.asdict(CHANGED.hparams))
  assert SCHEDULE_PARAMS.override(values) == CHANGED


@pytest.mark.parametrize('name', ('beta1', 'hparams', 'Alpha'))
def test_override_of_an_unknown_field(name):
  with pytest.raises(ValueError, match=f'Unknown field {name}; known are '):
    SCHEDULE_PARAMS.override({name: 1, 'alpha': 0.1})


def test_override_is_checked_as_a_whole():
  # The peak of cycle 3 is negative only with both values.
  params = ScheduleParams(alter_lr=(0.0, 0.0, -0.001))
  with pytest.raises(ValueError, match=r'alter_lr\[2\]=-0.001'):
    params.override({'learning_rate': 0.0005})
  # Cycles are counted after all lists were replaced.
  one = {'warmups': ['none'], 'decays': ['step'], 'alter_lr': [0.0]}
  one.update(alter_warmup=[0.0], lengths=[1.0])
  assert params.override(one).num_cycles == 1


def test_numbers_of_numpy_can_be_written():
  params = ScheduleParams(
    switch_k=np.int64(7), alpha=np.float32(0.25), lengths=np.ones(3).tolist()
  )
  assert ScheduleParams.from_json(params.to_json()) == params

"""The configuration: its values, its checks, JSON, overriding, its rules."""

from __future__ import annotations

import ast
import collections
import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest

from curves import assert_close, read
from made_up_parts import Patience, registered
from reset_cycles import schedule_params
from reset_cycles.control.goals.final import Final
from reset_cycles.control.horizons.steps import Steps
from reset_cycles.control.policies.finish import Finish
from reset_cycles.control.policies.hold import Hold
from reset_cycles.control.policies.policy import Situation
from reset_cycles.control.policies.repeat import Repeat
from reset_cycles.control.state import Target
from reset_cycles.control.switching import SWITCHING_RULES
from reset_cycles.control.switching.thesis import Thesis
from reset_cycles.schedule_params import (
  COMPETITION,
  PARTS,
  SCHEDULE_PARAMS,
  THESIS,
  ScheduleParams,
  make_rules,
)
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import HPARAMS, Hparams
from reset_cycles.settings.named import as_plain

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


RULE = {
  'name': 'thesis',
  'lam': 0.7,
  'eps1': 0.01,
  'eps2': 0.01,
  'k': 9,
  'm': 9,
}


def test_what_the_thesis_ran():
  values = THESIS.to_dict()
  assert values.pop('hparams') == dataclasses.asdict(HPARAMS)
  assert values == {
    'warmups': ('linear', 'linear', 'linear'),
    'decays': ('cosine', 'cosine', 'cosine'),
    'alter_lr': (0.0, 0.0, 0.0),
    'alter_warmup': (0.0, 0.0, 0.0),
    'lengths': (1.0, 1.0, 1.0),
    'budget_factor': 2.0,
    'reset_mode': 'soft',
    'alpha': 0.5,
    # Figure 3.7.
    'early_switching': True,
    'switching': RULE,
    'goal': 'final',
    'horizon': 'steps',
    'policy': 'finish',
    'optimizer': 'adamw',
    # A constant weight decay.
    'weight_decays': (),
    'alter_weight_decay': (),
    # No list of settings, evaluated as trained, reset at once.
    'cycles': (),
    'averaging': 'none',
    'wait': False,
    # Our form of tau for metrics that fall, with which its figures were made.
    'distance': 'log',
  }
  assert THESIS.num_cycles == 3


def test_what_is_in_force():
  """Written out, but for what is as the thesis had it."""
  assert SCHEDULE_PARAMS is COMPETITION
  values, thesis = COMPETITION.to_dict(), THESIS.to_dict()
  schedule_free = {
    'name': 'own',
    'optimizer': {
      'name': 'schedule_free_adamw',
      'r': 0.75,
      'weight_lr_power': 2.0,
    },
    'decay': 'constant',
  }
  assert {n: v for n, v in values.items() if v != thesis[n]} == {
    **dict.fromkeys(CHAIN, ()),
    'cycles': (
      schedule_free,
      'generalized_adam/1',
      {**schedule_free, 'learning_rate': 0.00025},
      {**schedule_free, 'learning_rate': 0.025},
    ),
    'hparams': {
      'dropout_rate': 0.1,
      'learning_rate': 0.0025,
      'one_minus_beta1': 0.1,
      'beta2': 0.9955159689799007,
      'weight_decay': 0.08121616522670176,
      'warmup_factor': 0.015,
      'eps': 1e-8,
      'grad_clip': None,
      'label_smoothing': 0.0,
    },
    'budget_factor': 1.5,
    'switching': {'name': 'progress', 'fair': 0.3, 'decay': 0.4},
    'goal': 'expected',
    'horizon': 'time',
    'policy': {
      'name': 'race',
      'probes': 4,
      'rounds': (0.04,),
      'by': 'best',
      'enough': 0.3,
      'full': 0.667,
      'near': 0.9,
      'patient': True,
    },
    'wait': True,
    'distance': 'linear',
  }


def test_a_whole_cycle_of_what_is_in_force_warms_up_as_published():
  """Over 2 % of three quarters of step_hint."""
  rules = make_rules(12_000, COMPETITION, TARGET)
  situation = Situation(rules.cycles, -1, 0, sum(c.steps for c in rules.cycles))
  whole = rules.policy.full_steps(situation, 0)
  assert whole == pytest.approx(12_000, rel=1e-3)
  share = float(COMPETITION.plans[0].warmup_share)
  assert share * whole == pytest.approx(0.02 * 0.75 * 12_000, rel=1e-3)


def test_the_defaults_are_the_thesis_but_that_no_run_ends_itself():
  rule = SWITCHING_RULES.make(ScheduleParams().switching)
  assert rule == SWITCHING_RULES.make(THESIS.switching)
  spelled_out = dataclasses.replace(ScheduleParams(), switching=RULE)
  assert spelled_out == dataclasses.replace(THESIS, policy='repeat')


def names_given(call):
  """Of the keyword arguments of a call; it has no others."""
  assert call.args == []
  return [keyword.arg for keyword in call.keywords]


def test_the_thesis_is_spelled_out():
  """No default can redefine it: its source gives every field."""
  tree = ast.parse(pathlib.Path(schedule_params.__file__).read_text())
  (call,) = (
    node.value
    for node in tree.body
    if isinstance(node, ast.Assign) and node.targets[0].id == 'THESIS'
  )
  given = {keyword.arg: keyword.value for keyword in call.keywords}
  assert call.func.id == 'ScheduleParams'
  fields = dataclasses.fields(ScheduleParams)
  assert sorted(names_given(call)) == sorted(f.name for f in fields)
  assert given['hparams'].func.id == 'Hparams'
  fields = dataclasses.fields(Hparams)
  assert sorted(names_given(given['hparams'])) == sorted(f.name for f in fields)
  for field, registry in PARTS.items():
    setting = ast.literal_eval(given[field])
    if isinstance(setting, str):
      assert not registry.parameters(setting)
    else:
      known = registry.parameters(setting['name'])
      assert set(setting) == {'name', *known}


NO_NUMBERS = (NAN, INF, -INF, '0.1', None, True, [0.1], HUGE)
SHARE = 'a number from 0 up to, not including, 1'
POSITIVE = 'a number above 0'
AT_MOST_ONE = 'a number above 0 and at most 1'
COUNT = 'a whole number of at least 1'
ZERO_TO_ONE = 'a number from 0 to 1'

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
  ('warmup_factor', (*NO_NUMBERS, -0.1, 1.1), ZERO_TO_ONE),
)
NO_SHAPES = (None, 3, '', 'Linear', ['linear'])
WARMUPS = 'one of linear, cosine, exponential, none'
DECAYS = 'one of cosine, '
BAD_OF_A_CYCLE = (
  ('warmups', (*NO_SHAPES, 'step'), WARMUPS),
  ('decays', (*NO_SHAPES, 'none'), DECAYS),
  ('alter_lr', NO_NUMBERS, 'a number'),
  ('alter_lr', (-0.1, -HPARAMS.learning_rate), 'the peak is positive'),
  ('alter_warmup', NO_NUMBERS, 'a number'),
  ('alter_warmup', (-0.03, -0.02001), 'at least 0: no negative warm-up'),
  ('alter_warmup', (0.981, 3.0), 'no warm-up longer than its cycle'),
  ('lengths', (*NO_NUMBERS, 0.0, -1.0), POSITIVE),
)
BAD_WEIGHT_DECAYS = (
  ('weight_decays', (*NO_SHAPES, 'none'), DECAYS),
  ('alter_weight_decay', NO_NUMBERS, 'a number'),
  ('alter_weight_decay', (-0.1,), 'no weight decay is negative'),
)
NO_LISTS = (None, 3, 'linear', {'a': 1})
BAD_RULES = (
  *(
    (name, NO_LISTS, 'a list')
    for name, _, _ in BAD_OF_A_CYCLE + BAD_WEIGHT_DECAYS
  ),
  ('budget_factor', (*NO_NUMBERS, 0.0, -2.0), POSITIVE),
  *(
    (name, (None, 3, '', 'stop', True, ['steps']), f'one of {known}')
    for name, known in (
      ('switching', 'floor, progress, thesis'),
      ('goal', 'expected, final'),
      ('horizon', 'steps, time'),
      ('policy', 'finish, hold, queue, race, repeat'),
      ('optimizer', 'adamw'),
    )
  ),
  (
    'reset_mode',
    (None, 'none', 1),
    'one of soft, full, kept_momentum, cyclic',
  ),
  ('alpha', (*NO_NUMBERS, -0.1, 1.1), ZERO_TO_ONE),
  ('early_switching', (None, 1, 'yes'), 'true or false'),
  ('hparams', (None, {}, 3), 'an Hparams'),
)


# parameter of the switching rule, values, what is right.
NO_COUNTS = (0, -1, 9.0, 9.5, True, '9', None, NAN)
BAD_OF_THE_RULE = (
  ('lam', (*NO_NUMBERS, 0.0, -0.1, 1.1), AT_MOST_ONE),
  ('eps1', NO_NUMBERS, 'a number'),
  ('eps2', NO_NUMBERS, 'a number'),
  ('k', NO_COUNTS, COUNT),
  ('m', NO_COUNTS, COUNT),
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
  assert_refused(lambda: THESIS.override({name: value}), name, value, right)


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_RULES))
def test_bad_rules(name, value, right):
  assert_refused(lambda: ScheduleParams(**{name: value}), name, value, right)


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_OF_A_CYCLE))
def test_bad_values_of_a_cycle(name, value, right):
  values = [*getattr(THESIS, name)[:2], value]
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


@pytest.mark.parametrize(('name', 'value', 'right'), cases(BAD_OF_THE_RULE))
def test_bad_parameters_of_the_rule(name, value, right):
  assert_refused(
    lambda: ScheduleParams(switching={**RULE, name: value}),
    f'switching.{name}',
    value,
    right,
  )
  assert_refused(
    lambda: THESIS.override({f'switching_{name}': value}),
    f'switching.{name}',
    value,
    right,
  )


@pytest.mark.parametrize(
  ('switching', 'said'),
  (
    (
      {'name': 'thesis', 'lamb': 0.5},
      'thesis has no parameter lamb; it has eps',
    ),
    ({'name': 'thesis', 'lamb': 0.5}, r'k, lam, m\. Did you mean lam\?$'),
    ({'lam': 0.5}, 'name is missing; it says which switching rule is meant'),
  ),
)
def test_a_rule_that_is_no_setting(switching, said):
  with pytest.raises(ValueError, match=f'^switching: .*{said}'):
    ScheduleParams(switching=switching)


def test_a_part_that_is_nearly_known():
  for name, value, meant in (
    ('policy', 'finsh', 'finish'),
    ('reset_mode', 'sofd', 'soft'),
    ('switching', 'theses', 'thesis'),
  ):
    with pytest.raises(ValueError, match=rf'Did you mean {meant}\?$'):
      ScheduleParams(**{name: value})


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
    {'switching': 'thesis', 'policy': 'hold'},
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


def test_good_parameters_of_the_rule_at_the_ends():
  for given in ({'lam': 1}, {'eps1': -1.0}, {'k': 1, 'm': 1}):
    params = ScheduleParams(switching={'name': 'thesis', **given})
    assert SWITCHING_RULES.make(params.switching) == Thesis(**given)


def test_a_setting_without_parameters_is_its_name():
  params = ScheduleParams(switching={'name': 'thesis'}, policy={'name': 'hold'})
  assert (params.switching, params.policy) == ('thesis', 'hold')
  # What was not given is not made up.
  rule = {'name': 'thesis', 'k': 3}
  assert as_plain(ScheduleParams(switching=rule).switching) == rule


def test_frozen():
  for instance, name in (
    (THESIS, 'alpha'),
    (THESIS, 'new'),
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


# No field has its default value, but for:
OTHER_FORM = {'cycles'}  # in place of the lists
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
  reset_mode='full',
  alpha=0.3,
  early_switching=False,
  switching={'name': 'thesis', 'lam': 0.6, 'eps1': 0.1, 'k': 7, 'm': 8},
  goal={'name': 'expected', 'curve': 'q50'},
  horizon={'name': 'time', 'margin': 0.2},
  policy='hold',
  optimizer={'name': 'ademamix', 'beta3': 0.999},
  averaging='lawa',
  wait=True,
  distance='linear',
  hparams=Hparams(0.2, 0.01, 0.2, 0.99, 0.0, 0.1, 1e-6, 2.0, 0.1),
)


def test_no_field_is_missing_in_the_round_trip():
  for instance in (CHANGED, CHANGED.hparams):
    for field in dataclasses.fields(instance):
      if field.name not in OTHER_FORM:
        assert getattr(instance, field.name) != field.default


@pytest.mark.parametrize('params', (THESIS, COMPETITION, CHANGED))
def test_json_round_trip(params):
  again = ScheduleParams.from_json(params.to_json())
  assert again == params
  assert ScheduleParams.from_dict(params.to_dict()) == params
  # Plain JSON: what is read is what was written, and no tuple is a list.
  assert isinstance(again.lengths, tuple)
  assert json.loads(params.to_json())['lengths'] == list(params.lengths)


CHAIN = ('warmups', 'decays', 'alter_lr', 'alter_warmup', 'lengths')


def without(values, name):
  return {key: value for key, value in values.items() if key != name}


def test_what_is_missing_in_a_file_is_the_thesis(monkeypatch):
  """Whatever the defaults of the fields have become."""
  values = json.loads(CHANGED.to_json())
  hparams = values.pop('hparams')
  others = {'reset_mode': 'cyclic', 'alpha': 0.9, 'policy': 'hold'}
  for name, default in others.items():
    monkeypatch.setattr(ScheduleParams, name, default)
  defaults = list(ScheduleParams.__init__.__defaults__)
  names = [f.name for f in dataclasses.fields(ScheduleParams)]
  for name, default in others.items():
    defaults[names.index(name)] = default
  monkeypatch.setattr(ScheduleParams.__init__, '__defaults__', tuple(defaults))
  assert ScheduleParams().alpha == 0.9

  for name in values:
    file, thesis = without(CHANGED.to_dict(), name), getattr(THESIS, name)
    if name in CHAIN:
      with pytest.raises(ValueError, match=f'{name} has 3'):  # beside two
        ScheduleParams.from_dict(file)
    else:
      expected = dataclasses.replace(CHANGED, **{name: thesis})
      assert ScheduleParams.from_dict(file) == expected, name
  assert ScheduleParams.from_dict({}) == THESIS
  for name in hparams:
    changed = {**CHANGED.to_dict(), 'hparams': without(hparams, name)}
    again = ScheduleParams.from_dict(changed)
    assert again.hparams == dataclasses.replace(
      CHANGED.hparams, **{name: getattr(THESIS.hparams, name)}
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
  with pytest.raises(
    ValueError, match='sqrt.* is a Python function.* JSON cannot'
  ):
    params.to_json()
  values = THESIS.to_dict()
  values['decays'] = ['cosine', 'cosine', {'name': name, 'function': 'sqrt'}]
  with pytest.raises(ValueError, match=r'decays\[2\].function=.*JSON cannot'):
    ScheduleParams.from_json(json.dumps(values))


def test_unknown_keys_in_json():
  values = THESIS.to_dict()
  said = r'^Unknown field alfa; known are alpha, .* Did you mean alpha\?$'
  with pytest.raises(ValueError, match=said):
    ScheduleParams.from_dict({**without(values, 'alpha'), 'alfa': 0.5})
  values['hparams'] = {**values['hparams'], 'beta_2': 0.9}
  said = r'^Unknown field beta_2; known are beta2, .* Did you mean beta2\?$'
  with pytest.raises(ValueError, match=said):
    ScheduleParams.from_dict(values)


@pytest.mark.parametrize('name', ('switch_lam', 'when_cycles_run_out'))
def test_a_file_of_today_has_no_old_names(name):
  with pytest.raises(ValueError, match=f'^Unknown field {name}; known are '):
    ScheduleParams.from_dict({**THESIS.to_dict(), name: 'hold'})


@pytest.mark.parametrize('text', ('', '{', '[]', '3', 'null', '"x"'))
def test_json_that_is_no_configuration(text):
  with pytest.raises(ValueError):
    ScheduleParams.from_json(text)


def test_bad_values_in_json_are_refused():
  values = {**THESIS.to_dict(), 'alpha': 2}
  with pytest.raises(ValueError, match='alpha=2: alpha must be'):
    ScheduleParams.from_json(json.dumps(values))
  values = {**THESIS.to_dict(), 'hparams': [1]}
  with pytest.raises(ValueError, match=r'hparams=\[1\]: hparams must be'):
    ScheduleParams.from_json(json.dumps(values))


# As the first build wrote it, with fields that its own defaults did not have.
OLD_FILE = """{
  "warmups": ["linear", "none", "exponential", {"name": "linear", "start": 0.1}],
  "decays": ["exponential", "linear", "cosine", {"name": "wsd", "decay": 0.1}],
  "alter_lr": [0.0, 0.001, -0.001, 0.05],
  "alter_warmup": [0.0, 0.18, -0.015, 0.0],
  "lengths": [1.0, 1.0, 2.0, 1.5],
  "budget_factor": 1.5,
  "when_cycles_run_out": "hold",
  "reset_mode": "kept_momentum",
  "alpha": 0.25,
  "early_switching": false,
  "switch_lam": 0.6,
  "switch_eps1": 0.02,
  "switch_eps2": 0.03,
  "switch_k": 7,
  "switch_m": 8,
  "hparams": {
    "dropout_rate": 0.2,
    "learning_rate": 0.002,
    "one_minus_beta1": 0.1,
    "beta2": 0.99,
    "weight_decay": 0.3,
    "warmup_factor": 0.05,
    "eps": 1e-06,
    "grad_clip": null,
    "label_smoothing": 0.1
  }
}"""


def test_a_file_of_the_first_build():
  assert ScheduleParams.from_json(OLD_FILE) == ScheduleParams(
    warmups=('linear', 'none', 'exponential', {'name': 'linear', 'start': 0.1}),
    decays=(
      'holding_exponential',
      'holding_linear',
      'cosine',
      {'name': 'wsd', 'decay': 0.1},
    ),
    alter_lr=(0.0, 0.001, -0.001, 0.05),
    alter_warmup=(0.0, 0.18, -0.015, 0.0),
    lengths=(1.0, 1.0, 2.0, 1.5),
    budget_factor=1.5,
    reset_mode='kept_momentum',
    alpha=0.25,
    early_switching=False,
    switching={
      'name': 'thesis',
      'lam': 0.6,
      'eps1': 0.02,
      'eps2': 0.03,
      'k': 7,
      'm': 8,
    },
    goal='final',
    horizon='steps',
    policy='hold',
    optimizer='adamw',
    hparams=Hparams(
      dropout_rate=0.2,
      learning_rate=0.002,
      one_minus_beta1=0.1,
      beta2=0.99,
      weight_decay=0.3,
      warmup_factor=0.05,
      eps=1e-6,
      grad_clip=None,
      label_smoothing=0.1,
    ),
    weight_decays=(),
    alter_weight_decay=(),
  )


def test_the_rates_of_a_file_of_the_first_build():
  """Its exponential and linear decays are those that hold the peak first."""
  params = ScheduleParams.from_json(OLD_FILE)
  peak, length = 0.002, 100
  first, second = lay_out(366, params)[:2]
  assert (first.steps, second.steps) == (length, length)
  # W = 5 and the peak holds for another 5 + 20 steps; then 0.1 per 60 steps.
  assert_close(read(first.rate, np.asarray([30, 90])), [peak, 0.1 * peak], peak)
  # No warm-up: from the peak, at 20, to 0 over 80 steps.
  assert_close(
    read(second.rate, np.asarray([20, 60, 100])), [0.003, 0.0015, 0.0], 0.003
  )


def test_a_file_of_the_first_build_that_lacks_what_was_not_there_yet():
  old = json.loads(OLD_FILE)
  for name in ('switch_lam', 'when_cycles_run_out'):
    del old[name]
  params = ScheduleParams.from_dict(old)
  assert params.policy == 'finish'
  # A rule without its lambda: that of the thesis.
  assert SWITCHING_RULES.make(params.switching) == Thesis(0.7, 0.02, 0.03, 7, 8)


def test_shapes_in_a_file_of_the_first_build():
  """The newest of them had weight decays, and shapes within shapes."""
  inner = {'name': 'sequential', 'shapes': ['linear', 'cosine'], 'at': [0.5]}
  old = {
    **json.loads(OLD_FILE),
    'decays': [{'name': 'geometric', 'factor': 0.5}, inner, 'linear', 'cosine'],
    'weight_decays': ['ratio', 'linear', 'geometric', 'exponential'],
    'alter_weight_decay': [0.0, 0.1, 0.0, 0.2],
  }
  params = ScheduleParams.from_dict(old)
  plain = params.to_dict()
  assert plain['decays'] == (
    {'name': 'exponential', 'factor': 0.5},
    {**inner, 'shapes': ('holding_linear', 'cosine'), 'at': (0.5,)},
    'holding_linear',
    'cosine',
  )
  assert plain['weight_decays'] == (
    'ratio',
    'holding_linear',
    'exponential',
    'holding_exponential',
  )
  assert plain['alter_weight_decay'] == (0.0, 0.1, 0.0, 0.2)
  # Written as it is now, it is no file of the first build any more.
  assert ScheduleParams.from_json(params.to_json()) == params


def test_decays_are_those_of_today_where_no_old_name_is():
  decays = ['linear', 'cosine', 'exponential']
  params = ScheduleParams.from_dict({'decays': decays})
  assert params == dataclasses.replace(THESIS, decays=decays)


@pytest.mark.parametrize(
  ('name', 'value', 'said'),
  (
    ('switch_lam', 2, r'^switching\.lam=2: switching\.lam must be'),
    ('when_cycles_run_out', 'stop', "^policy='stop': policy must be one of"),
    ('switch_n', 2, '^Unknown field switch_n; known are '),
    ('decays', ['linaer'] * 4, r"^decays\[0\]='linaer': decays\[0\] must be"),
    ('decays', 'cosine', "^decays='cosine': decays must be a list"),
  ),
)
def test_wrong_values_in_a_file_of_the_first_build(name, value, said):
  with pytest.raises(ValueError, match=said):
    ScheduleParams.from_dict({**json.loads(OLD_FILE), name: value})


OVERRIDES = {
  'learning_rate': 0.01,
  'alpha': 0.25,
  'alter_lr': [0.1, 0.2, 0.3],
  'switching_lam': 0.5,
}


@pytest.mark.parametrize(
  'hyperparameters',
  (
    OVERRIDES,
    collections.namedtuple('Hyperparameters', OVERRIDES)(**OVERRIDES),
  ),
)
def test_override(hyperparameters):
  before = THESIS.to_json()
  expected = dataclasses.replace(
    THESIS,
    alpha=0.25,
    alter_lr=(0.1, 0.2, 0.3),
    switching={**RULE, 'lam': 0.5},
    hparams=dataclasses.replace(HPARAMS, learning_rate=0.01),
  )
  assert THESIS.override(hyperparameters) == expected
  assert THESIS.to_json() == before


@pytest.mark.parametrize('name', ('lam', 'eps1', 'eps2', 'k', 'm'))
def test_one_parameter_of_a_part_is_overridden(name):
  params = THESIS.override({f'switching_{name}': 1})
  assert as_plain(params.switching) == {**RULE, name: 1}
  assert dataclasses.replace(params, switching=RULE) == THESIS


def test_a_parameter_of_a_part_without_any():
  given = {'switching': 'thesis', 'switching_k': 3}
  params = THESIS.override(given)
  assert as_plain(params.switching) == {'name': 'thesis', 'k': 3}


def test_another_part_is_overridden_with_its_parameters():
  with registered(SWITCHING_RULES, patience=Patience):
    given = {'switching': 'patience', 'switching_most': 5}
    params = THESIS.override(given)
    assert SWITCHING_RULES.make(params.switching) == Patience(most=5)
    # A name is one of the rule that will be in force.
    with pytest.raises(ValueError, match='^Unknown field switching_lam; known'):
      THESIS.override({**given, 'switching_lam': 0.5})
    with pytest.raises(
      ValueError, match='^Unknown field switching_most; known'
    ):
      THESIS.override({'switching_most': 5})


@pytest.mark.parametrize(
  'nothing', (None, {}, collections.namedtuple('Hyperparameters', ())())
)
def test_override_with_nothing(nothing):
  assert SCHEDULE_PARAMS.override(nothing) == SCHEDULE_PARAMS


@pytest.mark.parametrize('params', (THESIS, COMPETITION))
def test_every_field_can_be_overridden(params):
  values = without(CHANGED.to_dict(), 'hparams')
  values.update(dataclasses.asdict(CHANGED.hparams))
  assert params.override(values) == CHANGED


def test_numbers_that_are_overridden_are_inherited_by_the_list():
  plans = COMPETITION.override({'learning_rate': 0.01, 'beta2': 0.9}).plans
  assert [plan.peak for plan in plans][::2] == [0.01, 0.00025]
  inherited = [plan.hparams.beta2 for plan in plans if plan is not plans[1]]
  assert inherited == [0.9] * 3
  assert plans[1] == COMPETITION.plans[1]  # published: inherits nothing


@pytest.mark.parametrize('name', ('learning_rate', 'grad_clip'))
def test_numbers_that_no_cycle_inherits_are_refused(name):
  own = {'learning_rate': 0.1, 'grad_clip': None}
  cycles = ('generalized_adam/1', {'name': 'lawa_queue/2', **own}, own)
  with pytest.raises(ValueError) as error:
    COMPETITION.override({'cycles': cycles, name: 0.5})
  assert str(error.value) == (
    f'{name}=0.5: {name} must be given inside cycles: each cycle of the list '
    'has a value of its own.'
  )


def test_one_cycle_that_inherits_is_enough():
  changed = COMPETITION.override(
    {'cycles': ('lawa_queue/2', {'eps': 1e-6}), 'learning_rate': 0.5}
  )
  assert [plan.peak for plan in changed.plans][1] == 0.5


def test_a_dropout_rate_is_also_the_runners():
  changed = COMPETITION.override(
    {'cycles': ('lawa_queue/2',), 'dropout_rate': 0.3}
  )
  assert changed.plans[0].hparams.dropout_rate == 0.0


@pytest.mark.parametrize(
  ('name', 'meant'),
  (
    ('beta1', 'beta2'),
    ('hparams', ''),
    ('Alpha', 'alpha'),
    ('switch_lam', 'switching_lam'),
    ('switching_lamb', 'switching_lam'),
  ),
)
def test_override_of_an_unknown_field(name, meant):
  with pytest.raises(ValueError) as error:
    THESIS.override({name: 1, 'alpha': 0.1})
  message = str(error.value)
  assert message.startswith(
    f'Unknown field {name}; known are alpha, alter_lr, '
  )
  assert message.endswith(f' Did you mean {meant}?' if meant else '.')


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
    switching={'name': 'thesis', 'k': np.int64(7)},
    alpha=np.float32(0.25),
    lengths=np.ones(3).tolist(),
  )
  assert ScheduleParams.from_json(params.to_json()) == params


# What it makes of a run.


TARGET = Target('validation/metric', 0.75, True)


def test_the_rules_of_the_thesis():
  rules = make_rules(6, THESIS, TARGET)
  assert [cycle.steps for cycle in rules.cycles] == [4, 4, 4]
  assert rules.target == TARGET
  assert rules.early_switching is True
  assert rules.switching == Thesis(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9)
  assert (rules.goal, rules.horizon) == (Final(), Steps())
  assert rules.policy == Finish()
  assert make_rules(6, ScheduleParams(), TARGET).policy == Repeat()


def test_more_cycles_than_steps():
  with pytest.raises(ValueError, match='3 cycles do not fit into 2 steps'):
    make_rules(1, THESIS, TARGET)


@pytest.mark.parametrize(
  ('last', 'final'),
  (
    ('cosine', 0.0),
    ('holding_linear', 0.0),
    ({'name': 'polynomial', 'start': 1.0, 'end': 0.0}, 0.0),
    (
      {'name': 'sequential', 'shapes': ['constant', 'cosine'], 'at': [0.5]},
      0.0,
    ),
    ('constant', 1.0),
    ('step', 0.01),
    ('holding_exponential', 10 ** (-0.76 / 0.6)),  # W = 2 of 100
    ({'name': 'polynomial', 'start': 1.0, 'end': 0.25}, 0.25),
  ),
)
def test_a_run_that_would_hold_a_rate_of_zero_is_refused(last, final):
  params = dataclasses.replace(THESIS, policy='hold')
  params = dataclasses.replace(params, decays=('constant', 'cosine', last))
  if final == 0:
    said = (
      r"^policy='hold': the last cycle's learning rate ends at 0, .*; policy "
      r'must be repeat or finish, or the last of decays must end above 0'
    )
    with pytest.raises(ValueError, match=said):
      make_rules(150, params, TARGET)
    # Every other policy can serve it.
    for policy in ('finish', 'repeat'):
      make_rules(150, dataclasses.replace(params, policy=policy), TARGET)
    return
  rules = make_rules(150, params, TARGET)
  assert rules.policy == Hold()
  last_rate = read(rules.cycles[-1].rate, np.asarray([100]))
  peak = HPARAMS.learning_rate
  assert_close(last_rate, final * peak, peak)

"""Names of recorded settings."""

from __future__ import annotations

import pytest

from reset_cycles.studies.chains import settings
from reset_cycles.studies.chains.settings import ChainSetting, TrialPoint

AVERAGED, RAW = (
  TrialPoint('lawa_queue', 'trial_2'),
  TrialPoint('cyclic_lr', 'trial_1'),
)


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    ('lawa_queue/2', ChainSetting(AVERAGED)),
    ('a/self', ChainSetting(TrialPoint('a', 'self'))),
    ('lawa_queue/2:cyclic_lr/1', ChainSetting(AVERAGED, ':', RAW)),
    ('lawa_queue/2+cyclic_lr/1', ChainSetting(AVERAGED, '+', RAW)),
    ('lawa_queue/2*cyclic_lr/1', ChainSetting(AVERAGED, '*', RAW)),
  ],
)
def test_a_setting_is_read_and_written(text, expected):
  found = settings.read_setting('--chain', text)
  assert found == expected
  assert str(found) == text


def test_a_chain_has_commas_between_its_settings():
  chain = settings.read_chain('--chain', 'lawa_queue/2, cyclic_lr/1')
  assert chain == (ChainSetting(AVERAGED), ChainSetting(RAW))


@pytest.mark.parametrize(
  'text',
  [
    '',
    'a',
    'a/',
    'a/x',
    'a/selfish',
    '/self',
    '/1',
    'a/1+',
    'a/1+b/2+c/3',
    'a/1-b/2',
  ],
)
def test_what_is_no_setting(text):
  with pytest.raises(
    ValueError, match=r'^--chain: .* is not a setting; it must '
  ):
    settings.read_setting('--chain', text)


def test_lists_of_settings():
  found = {
    name: [str(one) for one in settings.read_list('--settings', name)]
    for name in settings.LISTS
  }
  assert {name: len(names) for name, names in found.items()} == {
    'all': 35,
    'jax': 15,
    'runnable': 34,
    'replaced': 29,
    'in_turn': 29,
    'chosen': 29,
    'jax_replaced': 19,
    'jax_in_turn': 19,
    'jax_chosen': 19,
  }
  assert all(len(set(names)) == len(names) for names in found.values())
  assert set(found['all']) - set(found['runnable']) == {'nadamp/4'}
  assert 'lawa_queue/3+cyclic_lr/2' in found['in_turn']
  assert 'lawa_queue/3:baseline/3' in found['jax_replaced']
  assert settings.read_list('--settings', 'cyclic_lr/1') == (ChainSetting(RAW),)
  with pytest.raises(ValueError, match='Did you mean runnable'):
    settings.read_list('--settings', 'runable')

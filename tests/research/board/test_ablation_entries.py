"""The settings on the board: MUON, SOFT_RESET, and what lacks one part of it."""

import dataclasses

import pytest

from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.schedules import LinearWarmup
from reset_cycles.early_switching import AnyOf, ChainLossRule, Progress
from reset_cycles.research.board import entries
from reset_cycles.research.board.ablation import ABLATIONS
from reset_cycles.schedule_params import MUON, SCHEDULE_PARAMS, SOFT_RESET
from reset_cycles.soft_reset import Cyclic, SoftReset

FIELDS = {
  'MUON': 'cycles optimizer switching relative_peak',
  'before_the_law': 'cycles optimizer switching relative_peak',
  'SOFT_RESET': 'relative_peak',
  'double_share': '',
  'bare': 'cycles reset early_switching relative_peak',
  'bare_double_rate': 'cycles optimizer reset early_switching relative_peak',
  'without_soft': 'reset',
  'with_full': 'reset',
  'without_fade': 'reset',
  'with_alpha_0': 'reset',
  'without_relative_peak': 'relative_peak',
  'without_progress': 'early_switching',
  'without_cooldown': 'cycles',
  'without_growth': 'cycles',
  'without_cycles': 'cycles',
  'with_r_0': 'optimizer',
  **dict.fromkeys(
    (
      *('by_progress', 'by_progress_ten_times', 'by_progress_a_tenth'),
      *('by_either', 'by_either_ten_times', 'by_either_a_tenth'),
      *('by_either_sooner', 'by_either_sooner_ten_times'),
      'by_either_sooner_a_tenth',
    ),
    'cycles optimizer switching relative_peak',
  ),
  'MUON_one_cycle': 'cycles optimizer switching early_switching relative_peak',
  **dict.fromkeys(
    (
      *('MUON_without_soft', 'MUON_with_alpha_0'),
      *('MUON_without_fade', 'MUON_expected'),
    ),
    'cycles optimizer reset switching relative_peak',
  ),
}


@pytest.mark.parametrize('name', ABLATIONS)
def test_the_fields_that_differ(name):
  own = ABLATIONS[name]
  changed = [
    field.name
    for field in dataclasses.fields(SOFT_RESET)
    if getattr(own, field.name)
    != getattr(ABLATIONS['double_share'], field.name)
  ]
  assert changed == FIELDS[name].split()


def test_what_is_handed_in_is_muon():
  assert ABLATIONS['MUON'] is SCHEDULE_PARAMS
  assert 'MUON' in entries.known_paths()


def test_soft_reset_is_as_it_is_written_and_double_share_has_twice_its_share():
  assert ABLATIONS['SOFT_RESET'] is SOFT_RESET
  ours = dataclasses.replace(ABLATIONS['double_share'], relative_peak=None)
  assert ours == dataclasses.replace(SOFT_RESET, relative_peak=None)
  assert ABLATIONS['double_share'].relative_peak.share == 0.12
  assert SOFT_RESET.relative_peak.share == 0.06


def test_the_factors_on_the_rates():
  found = [
    entries.factor_of(n)
    for n in (
      *('MUON', 'by_either', 'MUON_expected', 'before_the_law', 'SOFT_RESET'),
      *('double_share', 'bare', 'mine'),
    )
  ]
  assert found == [1, 1, 1, 1, 1, 4, 4, 1]


def test_changes_of_muon():
  whole = ABLATIONS['MUON_one_cycle']
  assert [cycle.length for cycle in whole.cycles] == [1.0]
  assert ABLATIONS['MUON_without_soft'].reset == Cyclic()
  resets = {
    name: ABLATIONS[f'MUON_{name}'].reset
    for name in ('with_alpha_0', 'without_fade', 'expected')
  }
  assert resets == {
    'with_alpha_0': SoftReset(alpha=0.0, scale='linear', fade=2.0),
    'without_fade': SoftReset(alpha=0.5, scale='linear', fade=0.0),
    'expected': SoftReset(
      alpha=0.5, scale='linear', fade=0.0, expected=LinearWarmup()
    ),
  }


@pytest.mark.parametrize(
  ('suffix', 'share'), [('', 0.16), ('_ten_times', 1.6), ('_a_tenth', 0.016)]
)
def test_entries_of_muon_that_differ_in_the_rule_alone(suffix, share):
  progress, either, sooner = (
    ABLATIONS[f'by_{name}{suffix}']
    for name in ('progress', 'either', 'either_sooner')
  )
  window = Progress(window=0.06)
  assert progress.switching == window
  assert either.switching == AnyOf((ChainLossRule(), window))
  assert sooner.switching == AnyOf((ChainLossRule(lam=0.9, k=0.15), window))
  for params in (either, sooner):
    assert dataclasses.replace(params, switching=window) == progress
  assert progress.relative_peak.share == pytest.approx(share, rel=1e-15)
  own = {'switching': MUON.switching, 'relative_peak': MUON.relative_peak}
  assert dataclasses.replace(progress, **own) == MUON


def test_bare_at_twice_the_rate_decays_its_weights_as_much():
  bare, twice = ABLATIONS['bare'], ABLATIONS['bare_double_rate']
  rates = [params.cycles[0].peak for params in (bare, twice)]
  decays = [params.optimizer.weight_decay for params in (bare, twice)]
  assert rates[1] / rates[0] == decays[0] / decays[1] == 2.0


@pytest.mark.parametrize('name', ['bare', 'without_cycles', 'without_growth'])
def test_steps_of_the_cycles(name):
  params = ABLATIONS[name]
  chain = jax_lr_schedule(40, params.cycles, params.budget_factor)  # 60
  expected = {'without_growth': [15, 15, 15, 15]}
  assert [cycle.steps for cycle in chain.cycles] == expected.get(name, [60])

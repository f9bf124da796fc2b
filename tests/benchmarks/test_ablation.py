"""Settings that lack one piece of SOFT_RESET."""

import dataclasses

import pytest

from reset_cycles.benchmarks.ablation import PIECES
from reset_cycles.core.plan import jax_lr_schedule
from reset_cycles.schedule_params import SOFT_RESET

FIELDS = {
  'SOFT_RESET': '',
  'bare': 'cycles reset early_switching relative_peak',
  'bare_8x': 'cycles optimizer reset early_switching relative_peak',
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
}


@pytest.mark.parametrize('name', PIECES)
def test_the_fields_that_differ(name):
  piece = PIECES[name]
  changed = [
    field.name
    for field in dataclasses.fields(SOFT_RESET)
    if getattr(piece, field.name) != getattr(PIECES['SOFT_RESET'], field.name)
  ]
  assert changed == FIELDS[name].split()


def test_the_boards_share_is_twice_that_in_force():
  ours = dataclasses.replace(PIECES['SOFT_RESET'], relative_peak=None)
  assert ours == dataclasses.replace(SOFT_RESET, relative_peak=None)
  assert PIECES['SOFT_RESET'].relative_peak.share == 0.12
  assert SOFT_RESET.relative_peak.share == 0.06


def test_bare_at_twice_the_rate_decays_its_weights_as_much():
  bare, twice = PIECES['bare'], PIECES['bare_8x']
  rates = [params.cycles[0].peak for params in (bare, twice)]
  decays = [params.optimizer.weight_decay for params in (bare, twice)]
  assert rates[1] / rates[0] == decays[0] / decays[1] == 2.0


@pytest.mark.parametrize('name', ['bare', 'without_cycles', 'without_growth'])
def test_steps_of_the_cycles(name):
  params = PIECES[name]
  chain = jax_lr_schedule(40, params.cycles, params.budget_factor)  # 60
  expected = {'without_growth': [15, 15, 15, 15]}
  assert [cycle.steps for cycle in chain.cycles] == expected.get(name, [60])

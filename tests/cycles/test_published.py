"""Published settings: the figures of the recorded runs."""

from __future__ import annotations

import csv
import json
import pathlib

import pytest

from reset_cycles import submission
from reset_cycles.cycles.published import published
from reset_cycles.cycles.setting import CYCLES, plan_of_setting
from reset_cycles.schedule_params import ScheduleParams
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.settings.hparams import Hparams

RUNS = pathlib.Path(submission.__file__).parent / 'studies/real_runs/runs.csv'
SETTINGS = dict(published())
# What could not be run at all: another optimizer.
LEFT_OUT = {
  'amos',
  'caspr_adaptive',
  'schedule_free_prodigy',
  'shampoo_submission',
}
# Hyperparameters of averages and of what is not ours to set.
OTHERS = {
  'aux_dropout_rate',
  'k',
  'lawa_beta',
  'lawa_inner_steps_frac',
  'lawa_interval_scaling',
  'lawa_start_factor',
}


def recorded():
  """'submission/trial' -> the hyperparameters of its runs."""
  found = {}
  with RUNS.open(newline='') as lines:
    for row in csv.DictReader(lines):
      if row['ruleset'] == 'external' and row['hparams']:
        name = f'{row["submission"]}/{row["trial"].removeprefix("trial_")}'
        found.setdefault(name, []).append(json.loads(row['hparams']))
  return found


RECORDED = recorded()


def test_every_recorded_setting_is_there_or_left_out_by_name():
  names = {n for n in RECORDED if n.split('/')[0] not in LEFT_OUT}
  assert names == set(SETTINGS) == set(CYCLES) - {'own'}
  assert len(names) == 35


@pytest.mark.parametrize('name', SETTINGS)
def test_figures_are_those_of_the_recorded_runs(name):
  fields = SETTINGS[name]
  # Among the recorded trials of nadamp/1 is one with another's figures.
  figures = next(
    h for h in RECORDED[name] if 'nadamp' not in name or 'power' in h
  )
  power = figures.pop('power', 2.0)
  cycles = figures.pop('cycles', 1)
  if figures.pop('disable_preconditioning', False):
    assert fields['optimizer'] == 'nesterov'
  elif power != 2:
    assert fields['optimizer'] == {'name': 'nadamw', 'power': power}
  elif 'schedule_free' in name:
    assert fields['optimizer']['name'] == 'schedule_free_adamw'
  else:
    assert fields['optimizer'] == 'nadamw'
  assert figures.pop('nesterov', True)
  if 'k' in figures:
    assert fields['averaging'] == {
      'name': 'lawa',
      'k': figures['k'],
      'distance': figures['lawa_interval_scaling'],
      'start': figures['lawa_start_factor'],
    }
  else:
    assert fields['averaging'] == 'none'
  figures = {k: v for k, v in figures.items() if k not in OTHERS}
  length = figures.pop('cosine_decay_fraction', 1.0) / cycles
  warmup = figures.pop(
    'warmup_steps_fraction', figures.pop('warmup_factor', None)
  )
  assert fields['length'] == length
  assert fields['warmup_factor'] == warmup * cycles
  if 'beta1' in figures:
    beta1 = figures.pop('beta1')
    assert 1 - fields['one_minus_beta1'] == pytest.approx(beta1, rel=1e-15)
  names = set(figures) - {'warmup_factor'}
  assert {n: fields[n] for n in names} == {n: figures[n] for n in names}


@pytest.mark.parametrize('name', SETTINGS)
def test_nothing_is_inherited(name):
  other = Hparams(0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 3.0, 0.3)
  plans = [
    plan_of_setting(name, hparams, optimizer, 'none')
    for hparams, optimizer in ((Hparams(), 'adamw'), (other, 'ademamix'))
  ]
  assert plans[0] == plans[1]


def test_a_setting_over_its_own_steps_by_hand():
  params = ScheduleParams(
    cycles=['generalized_adam/2', {'name': 'cyclic_lr/4', 'length': 0.5}],
    budget_factor=1.25,
  )
  first, second = lay_out(1000, params)
  # int(0.75 * 1000) steps, int(0.01 * 750) of them warm-up; 500 and int(0.1 *
  # 1000).
  assert (first.steps, first.warmup_steps) == (750, 7)
  assert (second.steps, second.warmup_steps) == (500, 100)
  assert (first.peak, second.peak) == (
    0.0023792566965593815,
    0.001308209823469072,
  )
  assert first.hparams.weight_decay == 0.3417568278549717
  assert float(first.rate(750)) == pytest.approx(0.0, abs=1e-9)

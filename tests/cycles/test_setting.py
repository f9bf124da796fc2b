"""Cycles written as whole settings, in a configuration."""

from __future__ import annotations

import dataclasses
import json

import jax
import numpy as np
import pytest

from reset_cycles.schedule_params import (
  THESIS,
  ScheduleParams,
  check_plan,
)
from reset_cycles.schedules.lr_schedule import lay_out, static_chain
from reset_cycles.settings.hparams import Hparams

OWN = {
  'warmup': {'name': 'cosine', 'start': 0.25},
  'decay': {'name': 'wsd', 'decay': 0.5},
  'length': 2.0,
  'learning_rate': 0.5,
  'one_minus_beta1': 0.25,
  'beta2': 0.5,
  'eps': 1e-4,
  'weight_decay': 0.125,
  'weight_decay_shape': {'name': 'polynomial', 'start': 1.0, 'end': 0.5},
  'warmup_factor': 0.25,
  'grad_clip': 2.0,
  'label_smoothing': 0.5,
  'dropout_rate': 0.75,
  'optimizer': {'name': 'ademamix', 'alpha': 2.0},
  'averaging': 'none',
  'start_from': 'best',
}
MIXED = ['lawa_queue/2', {'name': 'nadamp/4', 'length': 0.5}, OWN, {}]


def test_everything_of_a_setting_is_in_its_cycle():
  (cycle,) = lay_out(100, ScheduleParams(cycles=[OWN], budget_factor=1.0))
  assert (cycle.steps, cycle.warmup_steps, cycle.peak) == (100, 25, 0.5)
  assert cycle.length == 2.0
  assert cycle.hparams == Hparams(
    0.75, 0.5, 0.25, 0.5, 0.125, 0.25, 1e-4, 2.0, 0.5
  )
  assert dict(cycle.optimizer.parameters) == {'alpha': 2.0}
  assert (cycle.averaging, cycle.start_from) == ('none', 'best')
  # A quarter of the peak at the start; the second half of the decay falls.
  values = [float(cycle.rate(t)) for t in (0, 25, 62, 100)]
  np.testing.assert_allclose(values, [0.125, 0.5, 0.5, 0.0], atol=1e-7)
  values = [float(cycle.weight_decay(t)) for t in (0, 100)]
  np.testing.assert_allclose(values, [0.125, 0.0625])


def test_what_a_setting_leaves_out_is_the_configurations():
  hparams = Hparams(learning_rate=0.25, grad_clip=3.0)
  params = ScheduleParams(
    cycles=[{}, {'learning_rate': 0.5}, {'grad_clip': None, 'beta2': 0.5}],
    hparams=hparams,
    optimizer='nesterov',
  )
  first, second, third = lay_out(30, params)
  assert first.hparams == hparams
  assert second.hparams == dataclasses.replace(hparams, learning_rate=0.5)
  assert third.hparams == dataclasses.replace(
    hparams, grad_clip=None, beta2=0.5
  )
  assert [c.peak for c in (first, second, third)] == [0.25, 0.5, 0.25]
  assert {c.optimizer for c in (first, second, third)} == {'nesterov'}
  assert [c.steps for c in (first, second, third)] == [20] * 3


def test_the_thesis_chain_as_settings_is_the_same_to_the_last_bit():
  lists = dataclasses.replace(THESIS, alter_lr=(0.0, 0.001, -0.001))
  base = THESIS.hparams.learning_rate
  peaks = [base, base + 0.001, base - 0.001]
  settings = dataclasses.replace(
    THESIS, cycles=[{'learning_rate': peak} for peak in peaks]
  )
  pairs = zip(lay_out(150, lists), lay_out(150, settings))
  for a, b in pairs:
    assert a.steps == b.steps and a.warmup_steps == b.warmup_steps
  rates = []
  for params in (lists, settings):
    chain, _, _ = static_chain(lay_out(150, params))
    rates.append(np.asarray(jax.vmap(chain)(np.arange(300))))
  np.testing.assert_array_equal(*rates)


def test_json_keeps_them():
  params = ScheduleParams(cycles=MIXED)
  again = ScheduleParams.from_json(params.to_json())
  assert again == params and hash(again) == hash(params)
  written = json.loads(params.to_json())
  assert written['cycles'] == [
    'lawa_queue/2',
    {'name': 'nadamp/4', 'length': 0.5},
    {'name': 'own', **OWN},
    'own',
  ]
  # What nobody reads is not in the file.
  assert written['decays'] == written['alter_lr'] == []
  assert params.num_cycles == 4
  check_plan(1000, params)


def test_a_file_of_cycles_alone():
  params = ScheduleParams.from_dict({'cycles': MIXED})
  assert params.cycles == ScheduleParams(cycles=MIXED).cycles
  assert params.hparams == THESIS.hparams


def test_a_search_space_may_give_either():
  lists = THESIS.override({'cycles': MIXED})
  assert lists == dataclasses.replace(THESIS, cycles=MIXED)
  peaks = [0.0, 0.001, -0.001]
  back = lists.override({'alter_lr': peaks})
  assert back == dataclasses.replace(THESIS, alter_lr=tuple(peaks))
  # Lists of the configuration make way as well.
  five = dataclasses.replace(THESIS, alter_lr=(0.0, 0.1, 0.2))
  assert five.override({'cycles': MIXED}) == lists


def assert_refused(message, **fields):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(THESIS, **fields)


def test_what_is_refused_by_name():
  both = 'cycles and alter_lr are both given'
  assert_refused(both, cycles=MIXED, alter_lr=(0.0, 0.1, 0.2))
  with pytest.raises(ValueError, match=both):
    THESIS.override({'cycles': MIXED, 'alter_lr': [0.0, 0.1, 0.2]})
  assert_refused(r'cycles=3: cycles must be a list', cycles=3)
  known = r"cycles\[0\]='lawa_queue/6': .* Did you mean lawa_queue/"
  assert_refused(known, cycles=['lawa_queue/6'])
  unknown = r'cycles\[1\]: own has no parameter leangth; .* Did you mean length'
  assert_refused(unknown, cycles=[{}, {'leangth': 1.0}])
  peak = r'cycles\[0\].learning_rate=0: .* must be a number above 0'
  assert_refused(peak, cycles=[{'name': 'nadamp/4', 'learning_rate': 0}])
  room = r'cycles\[0\].warmup_factor=0.9: .* has no room left'
  cycle = {'decay': 'holding_linear', 'warmup_factor': 0.9}
  assert_refused(room, cycles=[cycle])
  start = r'cycles\[0\].start_from=\'worst\': .* must be one of'
  assert_refused(start, cycles=[{'start_from': 'worst'}])
  free = {'optimizer': 'schedule_free_adamw', 'one_minus_beta1': 1.0}
  assert_refused(r'cycles\[0\]: with optimizer=schedule_free', cycles=[free])


def test_lists_that_were_left_cannot_be_read_again():
  params = dataclasses.replace(THESIS, cycles=MIXED)
  with pytest.raises(ValueError, match='lists of a chain must have one entry'):
    dataclasses.replace(params, cycles=())

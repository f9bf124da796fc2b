"""Settings as JSON: written by a run, read back."""

import dataclasses
import json
import math

import pytest

from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cosine, Cycle
from reset_cycles.early_switching import AnyOf, ChainLossRule, Progress
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.momentum import Nesterov
from reset_cycles.optimizers.peaks import RelativePeak
from reset_cycles.research.thesis.settings import RUNS
from reset_cycles.schedule_params import SOFT_RESET, THESIS
from reset_cycles.shapes.composed import Sequential
from reset_cycles.shapes.simple import Linear, Staircase
from reset_cycles.soft_reset import FullReset, SoftReset
from reset_cycles.views.settings_json import from_plain, read_file

ALL_KINDS = dataclasses.replace(
  THESIS,
  cycles=(
    Cycle(peak=0.5, decay=Staircase(at=(0.25, 0.5))),
    Cycle(
      decay=Sequential((Cosine(floor=0.5), Linear()), at=(0.5,)), length=2.0
    ),
  ),
  optimizer=EMA(Nesterov(), decay=0.5),
  repeat=True,
  relative_peak=RelativePeak(share=0.125),
  reset=FullReset(),
  switching=AnyOf((ChainLossRule(lam=0.5), Progress(window=0.25))),
  horizon=TimeHorizon(),
)


@pytest.mark.parametrize(
  'params',
  (THESIS, SOFT_RESET, ALL_KINDS, *RUNS.values()),
  ids=('thesis', 'soft_reset', 'all_kinds', *RUNS),
)
def test_what_a_run_writes_is_read_back(tmp_path, params):
  path = tmp_path / 'schedule_params.json'
  values = {'step_hint': 7, 'schedule_params': as_plain(params)}
  path.write_text(json.dumps(values))
  assert read_file(path) == (7, params)
  path.write_text(json.dumps(as_plain(params)))
  assert read_file(path) == (None, params)


def test_fields_that_are_left_out_have_their_defaults():
  assert from_plain({'class': 'Cycle', 'length': 2.0}) == Cycle(length=2.0)


def test_only_the_fields_that_differ_from_the_settings_in_force(tmp_path):
  values = {
    'reset': {'alpha': 0.25},
    'repeat': True,
    'horizon': {'class': 'TimeHorizon'},
    'cycles': [{'peak': 0.5}, {'class': 'Cycle', 'length': 3.0}],
  }
  path = tmp_path / 'params.json'
  path.write_text(json.dumps(values))
  first = THESIS.cycles[0]
  expected = dataclasses.replace(
    THESIS,
    reset=SoftReset(alpha=0.25, scale='log'),
    repeat=True,
    horizon=TimeHorizon(),
    cycles=(dataclasses.replace(first, peak=0.5), Cycle(length=3.0)),
  )
  assert read_file(path, THESIS) == (None, expected)


def test_one_of_the_rules_that_are_joined(tmp_path):
  path = tmp_path / 'params.json'
  path.write_text('{"switching": {"rules": [{"k": 0.5}, {}]}}')
  rules = ChainLossRule(lam=0.5, k=0.5), Progress(window=0.25)
  changed = dataclasses.replace(ALL_KINDS, switching=AnyOf(rules))
  assert read_file(path, ALL_KINDS) == (None, changed)


CYCLES = [{'class': 'Cycle'}]


@pytest.mark.parametrize(
  ('values', 'message'),
  (
    ([1], 'schedule_params=.* must be a JSON object'),
    ({'class': 'Cosine'}, 'schedule_params=.* must be a ScheduleParams'),
    ({'class': 'ScheduleParms'}, 'no such class. Did you mean ScheduleParams'),
    ({'class': ['Cycle']}, "class=.*'Cycle'.* no such class"),
    ({'class': 'ScheduleParams'}, "missing .* 'cycles'"),
    ({'rest': {}}, 'rest: ScheduleParams has no such field; .* mean reset'),
    (
      {'reset': {'alhpa': 1}},
      'reset.alhpa: SoftReset has no such field; it has alpha, .* mean alpha',
    ),
    ({'reset': {'alpha': 2}}, r'reset: alpha=2: must be .* \[0, 1\]'),
    ({'reset': 'soft'}, "reset='soft': must be an object such as"),
    (
      {'cycles': [*CYCLES, {'class': 'Cycle', 'decay': {'class': 'Cosin'}}]},
      r"cycles\[1\].decay.class='Cosin': .* Did you mean Cosine",
    ),
    (
      {'cycles': [{**CYCLES[0], 'decay': {'class': 'Cosine', 'floor': 'low'}}]},
      r"cycles\[0\].decay: floor='low': must be a number in \[0, 1\)",
    ),
    (
      {'cycles': [*CYCLES * 4, {'length': 1}]},
      r'cycles\[4\]: class is missing',
    ),
    ({'schedule_params': as_plain(THESIS)}, 'step_hint=None: .* whole number'),
    (
      {'schedule_params': {}, 'repeat': True},
      r"fields=\['repeat'\]: must be none",
    ),
    ({'step_hint': 5, 'schedule_params': {'reset': {}}}, 'class is missing'),
    ({'step_hint': 5, 'schedule_params': None}, 'schedule_params'),
    ({'budget_factor': math.nan}, 'budget_factor=nan'),
  ),
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, values, message):
  path = tmp_path / 'params.json'
  path.write_text(json.dumps(values))
  with pytest.raises(ValueError, match=f'params.json: .*{message}'):
    read_file(path, THESIS)


@pytest.mark.parametrize('text', ('', '{', '[' * 100_000))
def test_what_is_not_json(tmp_path, text):
  path = tmp_path / 'params.json'
  path.write_text(text)
  with pytest.raises(ValueError, match='params.json: it is not JSON'):
    read_file(path)


def test_a_name_that_is_given_twice(tmp_path):
  """Where the same name in another object is none."""
  path = tmp_path / 'params.json'
  path.write_text('{"reset": {"alpha": 0.3, "fade": 1, "alpha": 0.4}}')
  with pytest.raises(ValueError, match='params.json: alpha=0.4: must be given'):
    read_file(path, SOFT_RESET)
  path.write_text('{"cycles": [{"length": 2}, {"length": 3}]}')
  _, params = read_file(path, SOFT_RESET)
  assert [cycle.length for cycle in params.cycles] == [2, 3]

"""Settings that lack one piece of SOFT_RESET."""

from __future__ import annotations

import dataclasses

import pytest

from helpers import fake_benchmark
from helpers.replay import make_params, replay, tape
from reset_cycles.benchmarks.pieces import PIECES, SoftRace
from reset_cycles.schedule_params import SOFT_RESET
from reset_cycles.submission import make_submission

FIELDS = {
  'bare': 'cycles reset early_switching policy',
  'without_soft': 'reset',
  'with_full': 'reset',
  'with_alpha_0': 'reset',
  'without_race': 'policy',
  'soft_after_leaving': 'policy',
  'without_progress': 'early_switching',
  'without_cooldown': 'cycles',
  'without_growth': 'cycles',
  'without_cycles': 'cycles',
  'without_wait': 'wait',
  'without_time': 'horizon',
}


@pytest.mark.parametrize('name', PIECES)
def test_the_fields_that_differ(name):
  piece = PIECES[name]
  changed = [
    field.name
    for field in dataclasses.fields(SOFT_RESET)
    if getattr(piece, field.name) != getattr(SOFT_RESET, field.name)
  ]
  assert changed == FIELDS[name].split()


@pytest.mark.parametrize('name', ['bare', 'without_cycles', 'without_growth'])
def test_steps_of_the_cycles(name):
  cycles = PIECES[name].chain(40).cycles  # 60 steps
  expected = {'without_growth': [15, 15, 15, 15]}
  assert [cycle.steps for cycle in cycles] == expected.get(name, [60])


def test_a_peak_that_is_left_is_followed_by_a_soft_reset():
  # The second probe is left as well, and the first peak begins again.
  race = SoftRace(peaks=(1.0, 0.125))
  seen = [(1, 4.0, 0.0), (10, 4.0, 0.3), (20, 4.0, 0.2)]
  params = make_params(2, policy=race, early_switching=False)
  events, decision, _ = replay(params, 60, seen, until=30)
  assert tape(events, without=('evaluation',))[1:] == [
    (10, 'race', 1, 'the model hardly learns'),
    (10, 'reset', 2, ''),
    (10, 'cycle_start', 2, 65),  # 110 steps are left for both cycles
    (20, 'race', 2, 'the model hardly learns'),
    (20, 'reset', 3, ''),
    (20, 'cycle_start', 3, 70),
  ]
  resets = [(e['mode'], e['tau']) for e in events if e['event'] == 'reset']
  assert resets == [('SoftReset', 0.7), ('SoftReset', 0.8)]
  assert decision.control.chain_start == 0


def test_a_piece_trains():
  submission = make_submission(PIECES['with_full'])
  workload = fake_benchmark.TinyWorkload(20)
  run = fake_benchmark.Driver(submission, workload, {1: (1.0, 0.1)})
  assert not run.run(until=3)
  assert run.global_step == 3

"""Settings that lack one piece of SOFT_RESET."""

from __future__ import annotations

import dataclasses

import pytest

from helpers import fake_benchmark
from reset_cycles.benchmarks.pieces import PIECES
from reset_cycles.schedule_params import SOFT_RESET
from reset_cycles.submission import make_submission

FIELD = {
  'without_soft': 'reset',
  'with_full': 'reset',
  'with_alpha_0': 'reset',
  'without_race': 'policy',
  'without_progress': 'early_switching',
  'without_cooldown': 'cycles',
  'without_growth': 'cycles',
  'without_cycles': 'cycles',
  'without_wait': 'wait',
  'without_time': 'horizon',
}


@pytest.mark.parametrize('name', PIECES)
def test_one_field_differs(name):
  piece = PIECES[name]
  changed = [
    field.name
    for field in dataclasses.fields(SOFT_RESET)
    if getattr(piece, field.name) != getattr(SOFT_RESET, field.name)
  ]
  assert changed == [FIELD[name]]


@pytest.mark.parametrize('name', ['without_cycles', 'without_growth'])
def test_steps_of_the_cycles(name):
  cycles = PIECES[name].chain(40).cycles  # 60 steps
  expected = {'without_cycles': [60], 'without_growth': [15, 15, 15, 15]}
  assert [cycle.steps for cycle in cycles] == expected[name]


def test_a_piece_trains():
  submission = make_submission(PIECES['with_full'])
  workload = fake_benchmark.TinyWorkload(20)
  run = fake_benchmark.Driver(submission, workload, {1: (1.0, 0.1)})
  assert not run.run(until=3)
  assert run.global_step == 3

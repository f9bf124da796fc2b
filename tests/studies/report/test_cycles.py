"""The cycles of a run, from its events."""

from __future__ import annotations

import math

import pytest

from log_files import EVENTS, write_run
from reset_cycles.schedule_params import THESIS
from reset_cycles.studies.report.cycles import read_cycles
from reset_cycles.studies.report.reading import read_reported

PEAK = THESIS.hparams.learning_rate


def cycles_of(folder, *events):
  write_run(folder, events, metric=(0.9, 0.2, 0.1))
  return read_cycles(read_reported(folder))


def test_a_cycle_that_is_left_and_one_that_is_going(tmp_path):
  first, second = cycles_of(tmp_path, *EVENTS)
  assert (first.number, first.begin, first.end) == ('1', 0, 20)
  assert (first.reset, math.isnan(first.tau)) == ('', True)
  assert first.ended == 'left early: loss rises'
  assert first.best == 0  # after step 1
  # No warm-up at these lengths; a cosine over 34 steps, left after 20.
  assert first.peak == pytest.approx(PEAK)
  assert first.last_rate == pytest.approx(
    PEAK * (1 + math.cos(math.pi * 19 / 34)) / 2, rel=1e-4
  )
  assert (second.number, second.begin, second.end) == ('2', 20, 60)
  assert (second.reset, second.tau, second.ended) == ('reset', 0.25, '')
  assert second.best == 2


def start(step, cycle, **more):
  event = {'global_step': step, 'event': 'cycle_start', 'cycle': cycle}
  return {**event, 'setting': 1, 'pace': 1.0, **more}


def event(step, name, **more):
  return {'global_step': step, 'event': name, **more}


def test_how_cycles_begin_and_end(tmp_path):
  cycles = cycles_of(
    tmp_path,
    start(0, 1),
    event(5, 'wait', reason='the probe has not been evaluated'),
    event(6, 'pause'),
    event(6, 'reset', mode='full', tau=1.0),
    start(6, 2, scale=3.0),
    event(12, 'reset', mode='paused', tau=0.0),
    start(12, 3, anchor_local=6.0),
    event(20, 'clock', cycle=3, setting=1, pace=1.0, anchor_local=14.0),
    event(40, 'hold'),
    event(60, 'finish', reason='cycles have run out'),
  )
  assert [(c.begin, c.end, c.setting) for c in cycles] == [
    (0, 6, '1'),
    (6, 12, '1'),
    (12, 60, '1'),
  ]
  assert [c.reset for c in cycles] == ['', 'full', 'paused']
  assert [c.tau for c in cycles[1:]] == [1.0, 0.0]
  assert [c.ended for c in cycles] == [
    'paused',
    'at its planned end',
    'holds its last rate',
  ]
  assert cycles[1].peak == pytest.approx(3 * PEAK)
  # The evaluation at the step with which a cycle starts is the last one's.
  assert [c.best for c in cycles] == [0, None, 2]


def test_the_end_of_the_run(tmp_path):
  finish = event(58, 'finish', reason='cycles have run out')
  (cycle,) = cycles_of(tmp_path, start(0, 1), finish)
  assert (cycle.end, cycle.ended) == (58, 'run ends: cycles have run out')
  # It is evaluated after its last step, under a higher number.
  assert cycle.best == 2


def test_another_submission_has_no_cycles(tmp_path):
  assert cycles_of(tmp_path) == []

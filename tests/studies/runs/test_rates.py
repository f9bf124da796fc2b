"""The learning rate at every step, from the events of a run."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import numpy as np
import pytest

from reset_cycles.schedule_params import THESIS
from reset_cycles.schedules import cycle_clock
from reset_cycles.schedules.cycle_clock import CycleClock
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.studies.preview.position import planned_rates
from reset_cycles.studies.runs import rates
from reset_cycles.studies.runs.log import Log

STEP_HINT = 50  # three cycles of 34, 33 and 33 steps
PARAMS = dataclasses.replace(
  THESIS,
  alter_lr=(0.0, 0.001, 0.002),
  alter_warmup=(0.28, 0.28, 0.28),  # 10, 9 and 9 steps
)
FIRST, SECOND, THIRD = np.split(
  planned_rates(lay_out(STEP_HINT, PARAMS)), [34, 67]
)


def event(name, step, **values):
  row = {'event': name, 'global_step': step, 'pace': 1.0, **values}
  return {key: str(value) for key, value in row.items()}


def start(step, cycle, **values):
  return event('cycle_start', step, cycle=cycle, **values)


def clock(step, **values):
  return event('clock', step, **values)


def read(*events):
  log = Log(pathlib.Path('cycles.csv'), events)
  return rates.read_anchors(log, PARAMS.num_cycles)


def run_rates(last_step, *events, from_tables=True):
  steps, values = rates.at_all_steps(
    STEP_HINT, PARAMS, read(*events), last_step, from_tables
  )
  assert steps.tolist() == list(range(last_step))
  return values


def test_older_files_start_the_planned_cycles_anew():
  values = run_rates(40, start(0, 1), start(20, 2))
  np.testing.assert_array_equal(values, [*FIRST[:20], *SECOND[:20]])


def test_the_pace_moves_inside_a_cycle():
  values = run_rates(
    14,
    start(0, 1, setting=1, anchor_local=0.0, scale=1.0),
    clock(4, anchor_local=4.0, pace=2.0, scale=1.0),
    clock(8, anchor_local=12.0, scale=1.0),
    start(10, 2, setting=2, anchor_local=0.0, scale=1.0),
  )
  first = FIRST[[0, 1, 2, 3, 4, 6, 8, 10, 12, 13]]
  np.testing.assert_array_equal(values, [*first, *SECOND[:4]])


def test_a_rate_is_that_which_the_run_logs():
  # As it does: one step's by itself, compiled.
  cycles = lay_out(STEP_HINT, PARAMS)
  logged = jax.jit(lambda clock: cycle_clock.learning_rate(clock, cycles))
  values = run_rates(
    60,
    start(0, 2, setting=2, pace=0.75, anchor_local=0.0, scale=1.0),
    clock(20, pace=1.0625, anchor_local=15.0, scale=0.7),
    from_tables=False,
  )
  first = cycle_clock.anchored_clock(0, 1, 0.0, 33, 44)
  second = CycleClock(
    *map(np.int32, (20, 1, 20)), *map(np.float32, (15.0, 1.0625, 0.7))
  )
  expected = [
    logged((first if step < 20 else second)._replace(count=np.int32(step)))
    for step in range(60)
  ]
  np.testing.assert_array_equal(values, expected)


def test_between_nominal_steps_the_rate_is_the_schedules_own():
  # A straight line between nominal steps would be off by a hundredth here.
  peak = PARAMS.hparams.learning_rate
  values = run_rates(5, start(0, 1, anchor_local=10.0, pace=4.8))
  local = (np.arange(5) * 4.8) / 24
  expected = peak * (1 + np.cos(np.pi * local)) / 2
  np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_a_repeated_cycle_has_the_shape_of_the_last_and_a_scale():
  values = run_rates(
    8,
    start(0, 1, setting=1, scale=1.0),
    start(2, 2, setting=2, scale=1.0),
    start(4, 3, setting=3, scale=1.0),
    start(6, 4, setting=3, scale=0.5),
  )
  half = THIRD[:2] * np.float32(0.5)
  expected = [*FIRST[:2], *SECOND[:2], *THIRD[:2], *half]
  np.testing.assert_array_equal(values, expected)


def test_an_older_run_that_was_resumed_since():
  values = run_rates(6, start(0, 1), start(2, 2), start(4, 4, setting=3))
  np.testing.assert_array_equal(values, [*FIRST[:2], *SECOND[:2], *THIRD[:2]])


def test_a_clock_changes_the_scale_of_the_cycle_under_way():
  values = run_rates(
    14,
    start(0, 4, setting=3, scale=1.0),
    clock(12, anchor_local=12.0, scale=0.25),
  )
  expected = [*THIRD[:12], *(THIRD[12:14] * np.float32(0.25))]
  np.testing.assert_array_equal(values, expected)


def test_past_its_nominal_end_a_cycle_stays_at_its_final_rate():
  values = run_rates(40, start(0, 1))
  np.testing.assert_array_equal(values[:34], FIRST)
  assert set(values[34:]) == {values[34]}
  assert values[34] < values[33]


def test_two_anchors_at_a_step_are_the_later_one():
  values = run_rates(2, start(0, 1), clock(0, anchor_local=5.0))
  np.testing.assert_array_equal(values, FIRST[5:7])


def test_warm_ups_end_where_the_clock_says():
  anchors = read(
    start(0, 1, setting=1),  # of 10 nominal steps
    clock(4, anchor_local=4.0, pace=2.0),
    clock(20, anchor_local=34.0),
    start(30, 2, setting=2, pace=0.5),  # of 9
    start(60, 3, setting=3, anchor_local=20.0),  # goes on behind it
    start(70, 4, setting=3),  # is left before its end
    start(72, 5, setting=3),
    clock(80, anchor_local=8.0, pace=0.25),
  )
  assert rates.warmups(STEP_HINT, PARAMS, anchors) == [
    (0, 7),
    (30, 48),
    (60, 60),
    (70, 79),
    (72, 84),
  ]


@pytest.mark.parametrize('setting', [0, 4])
def test_a_setting_that_is_not_in_the_plan_is_refused(setting):
  with pytest.raises(ValueError, match='setting must be from 1 to 3, .*plan'):
    read(start(0, 1, setting=setting))

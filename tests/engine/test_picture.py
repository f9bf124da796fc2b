"""lr_schedule.png: which steps and rates it shows."""

import numpy as np
import pytest

from helpers.fake_benchmark import Logger
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.engine.picture import Piece, drawn, pieces_of, sampled
from reset_cycles.engine.records import Records
from reset_cycles.schedule_params import THESIS

CHAIN = jax_lr_schedule(300, THESIS.cycles, 1.0)  # three cycles of 100 steps


def clock(step, setting, end, nominal=0.0, pace=1.0, factor=1.0, kind=None):
  """A row of cycles.csv, as text."""
  return {
    'event': kind or ('clock' if nominal else 'cycle_start'),
    'global_step': str(step),
    'setting': str(setting),
    'cycle_end': str(end),
    'anchor_nominal': str(nominal),
    'pace': str(pace),
    'rate_factor': str(factor),
  }


def shown(events):
  steps, rates = sampled(CHAIN, pieces_of(CHAIN, events))
  return dict(zip(steps.round(6).tolist(), rates.tolist()))


def test_the_plan_is_three_cycles_in_a_row():
  assert pieces_of(CHAIN, []) == [
    Piece(100 * i, 100 * i + 100, i, 0.0, 1.0, 1.0) for i in range(3)
  ]


def test_the_first_start_of_the_thesis_changes_nothing():
  assert pieces_of(CHAIN, [clock(0, 1, 100)]) == pieces_of(CHAIN, [])


def test_an_abandoned_cycle_ends_where_the_next_one_starts():
  """After 40 steps; two cycles share the remaining 260, at half of the rate."""
  events = [
    clock(0, 1, 100),
    {'event': 'abandon', 'global_step': '40'},
    clock(40, 2, 170, pace=100 / 130, factor=0.5),
  ]
  pieces = pieces_of(CHAIN, events)
  assert [(p.start, p.setting) for p in pieces] == [(0, 0), (40, 1), (170, 2)]
  assert pieces[-1].end == pytest.approx(300)
  rates = shown(events)
  # The warm-up is over after 2 nominal steps, the cosine at half after 51.
  peak = THESIS.cycles[0].peak
  assert max(rate for step, rate in rates.items() if step <= 40) == (
    pytest.approx(peak, rel=1e-3)
  )
  later = {step: rate for step, rate in rates.items() if step > 41}
  assert max(later.values()) == pytest.approx(0.5 * peak, rel=1e-3)
  steps = np.array([*later])
  middle = steps[abs(steps - (40 + 51 * 1.3)).argmin()]
  assert later[middle] == pytest.approx(0.25 * peak, rel=1e-2)


def test_a_stretched_cycle_has_the_rates_of_its_clock():
  """From step 50 on at half of the pace, up to step 150."""
  events = [clock(0, 1, 100), clock(50, 1, 150, nominal=50.0, pace=0.5)]
  pieces = pieces_of(CHAIN, events)
  assert [(p.start, p.end) for p in pieces] == [
    (0, 50), (50, 150), (150, 350), (350, 550),
  ]  # fmt: skip
  rates = shown(events)
  plan = shown([])
  assert rates[150.0] == pytest.approx(plan[100.0], abs=1e-9)
  at_100 = rates[min(rates, key=lambda step: abs(step - 100))]
  at_75 = plan[min(plan, key=lambda step: abs(step - 75))]
  assert at_100 == pytest.approx(at_75, rel=1e-2)


def test_the_picture_is_drawn_anew_where_the_run_departs(tmp_path):
  files = Records(300, THESIS, jax_lr_schedule(300, THESIS.cycles, 1.0))
  files.start(Logger(tmp_path), 0)
  picture = tmp_path / 'lr_schedule.png'
  planned = picture.read_bytes()

  def starts(step, *given, **more):
    row = clock(step, *given, **more)
    del row['global_step']
    files.add([row], step, {})
    return picture.read_bytes()

  assert starts(0, 1, 100) == planned
  # A clock alone waits for the next start.
  assert starts(20, 1, 150, nominal=20.0, pace=80 / 130) == planned
  changed = starts(150, 2, 225)
  assert changed != planned
  pieces = [
    Piece(0, 20, 0, 0.0, 1.0, 1.0),
    Piece(20, 150, 0, 20.0, 80 / 130, 1.0),
    Piece(150, 225, 1, 0.0, 1.0, 1.0),
    Piece(225, 325.0, 2, 0.0, 1.0, 1.0),
  ]
  assert drawn(CHAIN, pieces) == changed

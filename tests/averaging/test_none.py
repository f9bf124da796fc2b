"""No average."""

from __future__ import annotations

from reset_cycles.averaging import AVERAGES
from reset_cycles.schedule_params import THESIS, ScheduleParams


def test_it_is_the_default_and_the_thesis():
  assert THESIS.averaging == ScheduleParams().averaging == 'none'
  assert 'none' in AVERAGES

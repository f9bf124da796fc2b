"""Events in words."""

from __future__ import annotations

import pytest

from reset_cycles.studies.report import events


@pytest.mark.parametrize(
  ('event', 'kind', 'detail'),
  [
    (
      {
        'global_step': '40',
        'event': 'cycle_start',
        'cycle': '2',
        'setting': '1',
        'cycle_end': '1072',
        'pace': '0.984375',
        'anchor_local': '0.0',
        'scale': '3.0',
        'peak_value': '0.005245916261783512',
        'learning_rate': '0.0',
      },
      'cycle starts',
      'setting 1, planned up to step 1,072, nominal steps per step 0.9844, '
      'factor on the peak 3, peak rate 0.005246',
    ),
    (
      {'event': 'reset', 'reason': 'early', 'note': 'why', 'tau': '0.25'},
      'reset',
      'early; why; τ 0.25',
    ),
    (
      {'event': 'switch', 'reason': 'loss rises'},
      'left early',
      'loss rises',
    ),
    (
      {'event': 'wait', 'reason': 'not evaluated', 'cycle_end': '51'},
      'waits',
      'not evaluated; at most up to step 51',
    ),
    ({'event': 'hold', 'cycle': '3'}, 'rate is held', ''),
    # From a version to come.
    (
      {'event': 'models_merged', 'weights': 'averaged', 'share': '0.12345'},
      'models merged',
      'weights averaged, share 0.1235',
    ),
  ],
)
def test_kinds_and_details(event, kind, detail):
  assert (events.kind(event), events.detail(event)) == (kind, detail)


@pytest.mark.parametrize(
  ('text', 'shown'),
  [('12000', '12,000'), ('nan', 'nan'), ('inf', 'inf'), ('1e300', '1e+300')],
)
def test_numbers(text, shown):
  assert events.shown(text) == shown

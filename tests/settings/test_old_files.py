"""Names of decays in files of older runs."""

from __future__ import annotations

import pytest

from reset_cycles.settings.old_files import translated_decay as translated


@pytest.mark.parametrize(
  ('older', 'today'),
  (
    ('exponential', 'holding_exponential'),
    ('linear', 'holding_linear'),
    ('geometric', 'exponential'),
    ('cosine', 'cosine'),
    ('ratio', 'ratio'),
    ({'name': 'linear'}, {'name': 'holding_linear'}),
    (
      {'name': 'geometric', 'factor': 0.5},
      {'name': 'exponential', 'factor': 0.5},
    ),
    # How a stable rate falls is no name of a shape.
    ({'name': 'wsd', 'fall': 'linear'}, {'name': 'wsd', 'fall': 'linear'}),
    (
      {
        'name': 'sequential',
        'shapes': ['linear', {'name': 'chained', 'shapes': ['geometric']}],
        'at': [0.5],
      },
      {
        'name': 'sequential',
        'shapes': [
          'holding_linear',
          {'name': 'chained', 'shapes': ['exponential']},
        ],
        'at': [0.5],
      },
    ),
    # What is wrong is refused by whoever reads it.
    (3, 3),
    (None, None),
    ({'name': 3}, {'name': 3}),
    ({}, {}),
  ),
)
def test_old_names(older, today):
  assert translated(older) == today

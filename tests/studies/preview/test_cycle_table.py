"""The table of a plan's cycles."""

from __future__ import annotations

import dataclasses

import pytest

from reset_cycles.experiments.settings import RUNS
from reset_cycles.schedule_params import THESIS, Hparams, ScheduleParams
from reset_cycles.schedules.lr_schedule import lay_out
from reset_cycles.studies.preview.cycle_table import (
  cycle_rows,
  setting_rows,
)
from reset_cycles.studies.preview.position import planned_rates
from reset_cycles.studies.text_table import table_lines

# Two cycles of 100 steps with peaks of 1 and 2 and no warm-up.
TWO_CYCLES = ScheduleParams(
  warmups=('none', 'none'),
  decays=('cosine', 'cosine'),
  alter_lr=(0.0, 1.0),
  alter_warmup=(0.0, 0.0),
  lengths=(1.0, 1.0),
  hparams=Hparams(learning_rate=1.0, weight_decay=0.25),
)


def test_cycles_of_three_peaks():
  # 2 * 1,600 steps in three cycles of 1067, 1067, 1066; W = floor(0.02 L).
  assert cycle_rows(1600, RUNS['peaks_soft']) == [
    ('cycle', 'first', 'last', 'warm-up', 'steps', 'peak', 'decay', 'share'),
    ('1', '1', '1,067', 'linear', '21', '0.001749', 'cosine', '33.3%'),
    ('2', '1,068', '2,134', 'linear', '21', '0.002749', 'cosine', '33.3%'),
    ('3', '2,135', '3,200', 'linear', '21', '0.0007486', 'cosine', '33.3%'),
  ]


def test_cycles_of_three_warm_ups_and_of_one_budget():
  rows = cycle_rows(1500, RUNS['warmups_full'])
  assert [row[4] for row in rows[1:]] == ['20', '200', '5']
  rows = cycle_rows(1500, RUNS['failed_start_soft'])
  assert [row[1:3] for row in rows[1:]] == [('1', '750'), ('751', '1,500')]
  assert [row[5] for row in rows[1:]] == ['0.05175', '0.001749']


def test_cycles_of_unequal_length():
  params = dataclasses.replace(RUNS['peaks_soft'], lengths=(1, 1, 2))
  rows = cycle_rows(200, params)
  assert [row[7] for row in rows[1:]] == ['25.0%', '25.0%', '50.0%']


def test_a_small_peak_keeps_its_digits():
  hparams = Hparams(learning_rate=1.5e-7)
  params = dataclasses.replace(RUNS['one_cycle'], hparams=hparams)
  assert cycle_rows(100, params)[1][5] == '1.5e-07'


def test_no_warm_up_has_no_steps():
  params = dataclasses.replace(
    RUNS['warmups_full'], warmups=('none', 'linear', 'none')
  )
  # Of three cycles of 1,000 steps.
  assert [c.warmup_steps for c in lay_out(1500, params)] == [0, 200, 0]
  rows = cycle_rows(1500, params)
  assert [row[3:5] for row in rows[1:]] == [
    ('none', '0'),
    ('linear', '200'),
    ('none', '0'),
  ]


def with_rates(params):
  return cycle_rows(100, params, planned_rates(lay_out(100, params)))


@pytest.mark.parametrize('name', RUNS)
def test_cycles_that_reach_their_peak_have_no_other_highest_rate(name):
  warm = RUNS[name]
  cold = dataclasses.replace(warm, warmups=('none',) * warm.num_cycles)
  for params in (warm, cold):
    assert with_rates(params) == cycle_rows(100, params)


@pytest.mark.parametrize(
  ('decay', 'highest'),
  [
    ({'name': 'piecewise_constant', 'values': [1, 1.5], 'at': [0.5]}, '1.5'),
    ({'name': 'polynomial', 'start': 0.5}, '0.5'),
    (
      {
        'name': 'sequential',
        'shapes': ['cosine', 'linear'],
        'at': [0.5],
        'peaks': [0.75, 2.5],
      },
      '2.5',
    ),
  ],
)
def test_a_highest_rate_that_is_not_the_peak(decay, highest):
  params = dataclasses.replace(TWO_CYCLES, decays=(decay, 'cosine'))
  header, first, second = with_rates(params)
  assert header[5:8] == ('peak', 'highest', 'decay')
  assert first[5:7] == ('1', highest)
  assert second[5:7] == ('2', '2')


def test_a_warm_up_as_long_as_its_cycle_ends_below_the_peak():
  params = dataclasses.replace(
    TWO_CYCLES, warmups=('none', 'linear'), alter_warmup=(0.0, 0.98)
  )
  # The last of 100 steps is taken at 2 * 99 / 100.
  rows = with_rates(params)
  assert [row[6] for row in rows] == ['highest', '1', '1.98']


def test_a_difference_that_four_digits_hide_is_none():
  def starting_at(share):
    decay = {'name': 'polynomial', 'start': share}
    return dataclasses.replace(TWO_CYCLES, decays=(decay, 'cosine'))

  rows = with_rates(starting_at(0.9999))
  assert [row[6] for row in rows] == ['highest', '0.9999', '2']
  params = starting_at(0.99999)
  assert with_rates(params) == cycle_rows(100, params)


def test_a_scheduled_weight_decay_has_a_column():
  params = dataclasses.replace(
    TWO_CYCLES,
    weight_decays=('ratio', {'name': 'cosine', 'floor': 0.1}),
    alter_weight_decay=(0.0, 0.5),
  )
  assert table_lines(cycle_rows(50, params)) == [
    '  cycle  first  last  warm-up  steps  peak  decay   '
    'weight decay            share',
    '  1      1      50    none     0      1     cosine  '
    'ratio 0.25              50.0%',
    '  2      51     100   none     0      2     cosine  '
    'cosine(floor=0.1) 0.75  50.0%',
  ]


@pytest.mark.parametrize(
  ('changes', 'cells'),
  [
    ({'weight_decays': ('linear', 'ratio')}, ['linear 0.25', 'ratio 0.25']),
    ({'alter_weight_decay': (0.5, -0.25)}, ['constant 0.75', 'constant 0']),
  ],
)
def test_one_list_is_enough_for_a_scheduled_weight_decay(changes, cells):
  params = dataclasses.replace(TWO_CYCLES, **changes)
  rows = cycle_rows(50, params)
  assert [row[7] for row in rows] == ['weight decay', *cells]


def test_long_shapes_go_on_in_further_lines():
  chained = {
    'name': 'chained',
    'shapes': ['cosine', {'name': 'polynomial', 'power': 2, 'end': 0.1}] * 3,
  }
  params = dataclasses.replace(TWO_CYCLES, decays=(chained, 'cosine'))
  rows = cycle_rows(50, params)
  lines = table_lines(rows)
  assert len(lines) > len(rows)
  assert max(map(len, lines)) <= 100
  # Nothing of it is lost.
  column = slice(lines[0].index('decay'), lines[0].index('share'))
  cell = ''.join(line[column] for line in lines[1:-1])
  assert cell.replace(' ', '') == rows[1][6].replace(' ', '')


def test_a_chain_of_settings():
  free = {'optimizer': 'schedule_free_adamw', 'start_from': 'fresh'}
  params = ScheduleParams(cycles=['nadamp/2', free], budget_factor=1.0)
  assert setting_rows(params) == [
    ('cycle', 'setting', 'optimizer', 'starts from'),
    ('1', 'nadamp/2', 'nadamw', ''),
    ('2', 'own', 'schedule_free_adamw', 'fresh'),
  ]
  header, first, second = cycle_rows(100, params)
  column = header.index('weight decay')
  assert (first[column], second[column]) == ('0.1606', '0.08122')
  assert setting_rows(THESIS) == []

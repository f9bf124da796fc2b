"""The table of a plan's cycles."""

from __future__ import annotations

import dataclasses

from soft_reset.experiments.settings import RUNS
from soft_reset.mini_algoperf.cycle_table import (
  cycle_rows,
  table_lines,
  warmup_lengths,
)
from soft_reset.schedule_params import Hparams


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
  assert warmup_lengths(1500, params) == (0, 200, 0)
  rows = cycle_rows(1500, params)
  assert [row[3:5] for row in rows[1:]] == [
    ('none', '0'),
    ('linear', '200'),
    ('none', '0'),
  ]


def test_columns_are_aligned():
  rows = [('a', 'bcd', 'e'), ('fghi', 'j', ''), ('', 'k', 'lm')]
  assert table_lines(rows) == [
    '  a     bcd  e',
    '  fghi  j',
    '        k    lm',
  ]

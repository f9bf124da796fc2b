"""Tables for the terminal."""

from __future__ import annotations

from reset_cycles.studies.text_table import table_lines


def test_columns_are_aligned():
  rows = [('a', 'bcd', 'e'), ('fghi', 'j', ''), ('', 'k', 'lm')]
  assert table_lines(rows) == [
    '  a     bcd  e',
    '  fghi  j',
    '        k    lm',
  ]


def test_a_table_that_fits_keeps_its_lines():
  rows = [('a', 'bb'), ('c', 'd d')]
  assert table_lines(rows, width=8) == ['  a  bb', '  c  d d']


def test_the_widest_column_goes_on_in_further_lines():
  rows = [
    ('cycle', 'decay', 'share'),
    ('1', 'cosine, then linear, then cosine', '50%'),
    ('2', 'cosine', '50%'),
  ]
  assert table_lines(rows, width=28) == [
    '  cycle  decay         share',
    '  1      cosine, then  50%',
    '         linear, then',
    '         cosine',
    '  2      cosine        50%',
  ]


def test_words_that_are_too_long_are_broken():
  rows = [('a', 'b' * 20), ('c' * 20, 'd')]
  lines = table_lines(rows, width=20)
  assert lines == [
    '  a         bbbbbbbb',
    '            bbbbbbbb',
    '            bbbb',
    '  cccccccc  d',
    '  cccccccc',
    '  cccc',
  ]

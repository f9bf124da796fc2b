"""The figures in the tables on the page of MUON are those of the runs beside it."""

import functools
import itertools
import pathlib

import pytest

from reset_cycles.research import muon
from reset_cycles.research.board import runs as logs
from reset_cycles.research.board.ablation import page as ablation
from reset_cycles.research.board.workload_sets import SETS

FOLDER = pathlib.Path(muon.__file__).parent
# The columns that compare with a setting, run by run.
OVER = {
  'over `before_the_law`': 'before_the_law',
  'over `decay_by_rate`': 'decay_by_rate',
}
WORKLOADS = {**SETS, 'both': [w for names in SETS.values() for w in names]}
CONDITIONS = {
  'selection': ('tuned',),
  'held_out': ('tuned', 'near', 'slow', 'large', 'small', 'inputs'),
  'both': ('tuned_full',),
}


@functools.cache
def all_runs():
  return logs.read_runs(FOLDER)


def rows():
  """Of all tables: cells by their column's head."""
  lines = (FOLDER / 'MUON.md').read_text(encoding='utf-8').splitlines()
  for is_table, own in itertools.groupby(lines, lambda x: x.startswith('|')):
    if is_table:
      head, _, *cells = ([c.strip() for c in x.split('|')[1:-1]] for x in own)
      yield from (dict(zip(head, values)) for values in cells)


def over(runs, name, condition, setting):
  """The cell of an entry with another setting as the baseline."""
  named = {setting: ablation.BASELINE, name: name}
  own = [
    run._replace(submission=named[run.submission])
    for run in runs
    if run.submission in named
  ]
  return ablation.cell(ablation.pairs_of(own, name, condition), condition)


def expected():
  """(entry, condition) and the cells of a row of it, for every set of runs."""
  for name_of_set, conditions in CONDITIONS.items():
    runs = [run for run in all_runs() if run.workload in WORKLOADS[name_of_set]]
    names = sorted({run.submission for run in runs})
    for name, condition in itertools.product(names, conditions):
      pairs = ablation.pairs_of(runs, name, condition)
      is_baseline = name == ablation.BASELINE
      if not pairs or (is_baseline and condition not in ablation.TARGETS):
        continue  # its steps are 1
      cells = {condition: ablation.cell(pairs, condition)}
      if condition in ablation.TARGETS and not is_baseline:
        cells[f'{condition}: steps'] = ablation.cell(pairs, 'tuned')
      for head, setting in OVER.items():
        if name not in (setting, ablation.BASELINE):
          cells[head] = over(runs, name, condition, setting)
      yield name, condition, cells


def test_every_entry_is_on_the_page_and_no_other_figure():
  page = [row for row in rows() if 'entry' in row]
  seen = set()
  for name, condition, cells in expected():
    own = [
      (i, row)
      for i, row in enumerate(page)
      if row['entry'] == name and row.get(condition) == cells[condition]
    ]
    assert own, (name, condition, cells)
    for i, row in own:
      shown = {head: cells[head] for head in cells if head in row}
      assert shown.items() <= row.items(), name
      seen.update((i, head) for head in shown)
  columns = {head for *_, cells in expected() for head in cells}
  for i, row in enumerate(page):
    figures = {head for head in columns if row.get(head)}
    assert {(i, head) for head in figures} <= seen, row


@pytest.mark.parametrize('row', [row for row in rows() if 'workload' in row])
def test_full_length_by_workload(row):
  runs = [run for run in all_runs() if run.workload == row['workload']]
  pairs = ablation.pairs_of(runs, 'before_the_law', 'tuned_full')
  ratio = ablation.compared(pairs).ratio
  assert row['before_the_law'].split(' ')[0] == (
    '' if ratio != ratio else f'{ratio:.2f}'
  )
  reached = [sum(run.is_reached for run in own) for own in zip(*pairs)]
  said = row['targets reached, of ten: before_the_law, bare']
  assert said == ', '.join(map(str, reached))


@pytest.mark.parametrize('row', [row for row in rows() if 'stand-in' in row])
def test_full_length_by_the_epochs(row):
  """Targets reached by the seeds 1 to 5."""
  entries = ('MUON', 'without_epochs', 'before_the_law', 'bare')
  reached = dict.fromkeys(entries, 0)
  for run in all_runs():
    is_shown = run.workload == row['stand-in'] and run.seed <= 5
    if is_shown and run.condition == 'tuned_full' and run.submission in reached:
      reached[run.submission] += run.is_reached
  said = row[f'targets reached, of five: {", ".join(entries)}']
  assert said == ', '.join(map(str, reached.values()))

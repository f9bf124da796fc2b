"""The figures on the page of MUON are those of the runs beside it."""

import itertools
import pathlib

import pytest

from reset_cycles import benchmarks
from reset_cycles.studies.board import ablation, logs
from reset_cycles.studies.board.workload_sets import SETS

FOLDER = pathlib.Path(benchmarks.__file__).parent / 'muon'
OVER_MUON = 'over `MUON`'
# Its runs at the selection set are beside the others, but not on the page.
LEFT_OUT = {('selection', 'double_share')}


def rows():
  """Of all tables: cells by their column's head."""
  lines = (FOLDER / 'MUON.md').read_text(encoding='utf-8').splitlines()
  for is_table, own in itertools.groupby(lines, lambda x: x.startswith('|')):
    if is_table:
      head, _, *cells = ([c.strip() for c in x.split('|')[1:-1]] for x in own)
      yield from (dict(zip(head, values)) for values in cells)


def over_muon(runs, name, condition):
  """The cell of an entry with MUON as the baseline."""
  named = {'MUON': ablation.BASELINE, name: name}
  own = [
    run._replace(submission=named[run.submission])
    for run in runs
    if run.submission in named
  ]
  return ablation.cell(ablation.pairs_of(own, name, condition), condition)


@pytest.mark.parametrize(
  ('name_of_set', 'conditions'),
  [
    ('selection', ('tuned',)),
    ('held_out', ('tuned', 'near', 'slow', 'large', 'small')),
    ('both', ('tuned_full',)),
  ],
)
def test_every_figure_of_a_table_is_that_of_the_runs(name_of_set, conditions):
  of_both = [name for names in SETS.values() for name in names]
  workloads = {**SETS, 'both': of_both}[name_of_set]
  runs = [run for run in logs.read_runs(FOLDER) if run.workload in workloads]
  names = {run.submission for run in runs} - {ablation.BASELINE}
  for name, condition in itertools.product(sorted(names), conditions):
    pairs = ablation.pairs_of(runs, name, condition)
    if not pairs or (name_of_set, name) in LEFT_OUT:
      continue
    found = ablation.cell(pairs, condition)
    said = [
      row
      for row in rows()
      if row.get('entry') == name and row.get(condition) == found
    ]
    assert said, (name, condition, found)
    for row in said:
      steps = ablation.cell(pairs, 'tuned')  # in the words of this condition
      assert row.get(f'{condition}: steps', steps) == steps, name
      if name != 'MUON' and OVER_MUON in row:
        assert row[OVER_MUON] == over_muon(runs, name, condition), name

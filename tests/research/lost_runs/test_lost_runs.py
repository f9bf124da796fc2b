"""The study of wrong targets and rates: its targets, its table, its page."""

import pytest

from helpers.documents import ROOT
from reset_cycles.engine import layout
from reset_cycles.research import run_logs
from reset_cycles.research.lost_runs import study

RISES = {'digits': False, 'molecules': True, 'text': False}


@pytest.mark.parametrize(
  ('case', 'rises', 'target'),
  [
    ('reachable', True, 0.1 + 0.9 * 0.4),
    ('ambitious', True, 0.1 + 1.25 * 0.4),
    ('impossible', True, 1.5),
    ('tenfold', True, 5.0),
    ('tenth', True, 0.05),
    # A metric that falls, in its logarithm: from .1 to .5 is backwards, five-fold.
    ('reachable', False, 0.1 * 5**0.9),
    ('impossible', False, 0.05),
  ],
)
def test_targets_by_hand(case, rises, target):
  assert study.target_of(case, 0.1, 0.5, rises) == pytest.approx(target)


def rows_of(case, lasts, abandoned):
  key = ('molecules', '1.0', case, '0.5')
  return [
    dict(zip(study.FIELDS, map(str, (*key, seed, 0, last, last, anew, 9))))
    for seed, (last, anew) in enumerate(zip(lasts, abandoned), 1)
  ]


def test_the_table_by_hand():
  """Of two runs that began anew one ends below .3, which half a budget gives."""
  rows = rows_of('half', (0.2, 0.3, 0.4), (0, 0, 0))
  rows += rows_of('impossible', (0.5, 0.1, 0.3), (0, 1, 2))
  lines = study.table(rows, RISES.get).splitlines()
  line = (
    '| molecules | 1.0 | impossible | 0.5 | 0.3 (0.1 to 0.5) | 2 | 2 | 1 of 2 |'
  )
  assert lines[1] == line


def test_runs_are_trained_at_the_rate_and_factor_of_their_row(
  tmp_path, monkeypatch
):
  """Targets are on the way from 0 to .4, which `bare` reaches."""
  trained = []

  def row_of(name, rate, case, seed, goal):
    trained.append((rate, case, layout.RATE_AFTER_FAILURE, goal))
    return 0.0, 0.4, 0.4, 0, 9

  monkeypatch.setattr(study, 'row_of', row_of)
  monkeypatch.setattr(study, 'rises_of', lambda name: True)
  monkeypatch.setattr(study, 'WORKLOADS', ('molecules',))
  for _ in range(2):  # the second time the log has them all
    study.train([7], tmp_path / 'log.csv')
  assert [case[:3] for case in trained] == study.cases()
  goals = {case: goal for _, case, _, goal in trained}
  assert goals['reachable'] == pytest.approx(0.36)
  assert goals['tenfold'] == pytest.approx(4)
  assert layout.RATE_AFTER_FAILURE == 0.5


@pytest.fixture(scope='module')
def cells():
  """(workload, rate, case, factor) -> median, runs begun anew, most, kept."""
  log = ROOT / 'research' / 'lost_runs' / 'runs.csv'
  table = study.table(run_logs.read(log, study.FIELDS), RISES.get)
  found = {}
  for line in table.splitlines():
    *key, last, anew, most, kept = line[2:-2].split(' | ')
    median = f'{float(last.split()[0]):.3f}'.removeprefix('0')
    found[tuple(key)] = median, int(anew), int(most), int(kept.split()[0])
  return found


PAGE = (ROOT / 'docs' / 'choosing.md').read_text()


@pytest.mark.parametrize(
  ('title', 'own', 'tenfold'),
  [
    ('one cycle, the whole budget', 'bare 0.5', None),
    ('one cycle, half of the budget', 'half 0.5', 'half 0.5'),
    (
      '`SOFT_RESET`, target at .9 of the way',
      'reachable 0.5',
      'reachable 0.5',
    ),
    (
      '`SOFT_RESET`, target at 1.25 of the way, or out of reach',
      'ambitious 0.5',
      'impossible 0.5',
    ),
    (
      '`SOFT_RESET`, target at 1.25 of the way, or out of reach',
      'impossible 0.5',
      'impossible 0.5',
    ),
    (
      'target out of reach, a quarter of the rate after a failure',
      'impossible 0.25',
      None,
    ),
    (
      'target out of reach, a tenth of the rate after a failure',
      'impossible 0.1',
      None,
    ),
  ],
)
def test_the_page_has_the_medians_on_molecules(title, own, tenfold, cells):
  [line] = [line for line in PAGE.splitlines() if line.startswith(f'| {title}')]
  for rate, case, cell in zip(
    ('1.0', '10.0'), (own, tenfold), line.split('|')[2:]
  ):
    if case is None:
      assert not cell.strip()
    else:
      median, anew, *_ = cells['molecules', rate, *case.split()]
      said = cell.replace('none', '0').split(',')
      assert said[0].strip() == median
      assert said[1:] in ([], [f' {anew} began anew '])


def test_the_page_counts_the_runs_that_began_anew(cells):
  asked = [
    (key[0], *cell)
    for key, cell in cells.items()
    if key[2] in study.TARGETS and key[3] == '0.5'
  ]
  assert len(asked) == 3 * 7  # of ten seeds each: 210 runs
  counts = [anew for _, _, anew, _, _ in asked]
  on_molecules = [anew for name, _, anew, _, _ in asked if name == 'molecules']
  assert (sum(counts), sum(on_molecules)) == (48, 46)
  assert max(most for *_, most, _ in asked) == 1
  assert sum(kept for *_, kept in asked) == 40
  said = '48 runs began anew, 46 of them on molecules.'
  words = ' '.join(PAGE.split())
  assert said in words and '40 of these 48 runs end no worse' in words

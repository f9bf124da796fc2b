"""The first lines of RESULTS.md: which claims hold, and which do not."""

import pathlib

import pytest

from helpers.log_files import write_log
from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis import results
from reset_cycles.research.thesis.claims import Finding
from reset_cycles.research.thesis.folders import Job

FOR, AGAINST, SPLIT, NONE = [1] * 10, [-1] * 10, [1] * 7 + [-1] * 3, [0] * 10
NOWHERE = 'Hold nowhere, and fail on a workload or more:'


@pytest.mark.parametrize(
  ('votes', 'outcome'),
  [
    ((FOR, FOR, FOR), 'Hold on every workload that has such cycles:'),
    ((FOR, NONE, NONE), 'Hold on every workload that has such cycles:'),
    ((FOR, AGAINST, FOR), 'Hold on some workloads only:'),
    ((FOR, SPLIT, FOR), 'Hold on some workloads only:'),
    ((NONE, NONE, SPLIT), 'Undecided:'),
    ((NONE, NONE, NONE), 'Undecided:'),
    ((AGAINST, SPLIT, NONE), NOWHERE),
    ((AGAINST, NONE, NONE), NOWHERE),
    (
      (AGAINST, AGAINST, AGAINST),
      NOWHERE,
    ),
  ],
)
def test_what_the_verdicts_of_workloads_come_to(votes, outcome):
  findings = [Finding([], own) for own in votes]
  [(found, [(number, said)])] = results._outcomes([findings])
  assert (found, number) == (outcome, 1)
  asked = [
    f'{name} {own.count(1)} : {own.count(-1)}'
    for name, own in zip(results.WORKLOADS, votes)
    if own != NONE
  ]
  assert said == (
    f'{", ".join(asked)}.' if asked else 'No such cycle anywhere.'
  )


def test_the_first_lines_say_which_claims_fail():
  page = pathlib.Path(thesis.__file__).with_name('RESULTS.md').read_text()
  first, _, _ = page.partition('All workloads are small')
  _, _, failed = first.partition(f'**{NOWHERE}**')
  numbers = [line.split(':')[0] for line in failed.strip().split('\n')]
  assert numbers == ['- Claim 9', '- Claim 11', '- Claim 13']
  assert 'abandons cycles that fail. Translation 0 : 10.' in failed


def test_figures_of_real_data_stand_below_those_of_their_stand_ins(tmp_path):
  """But no plan, no seconds, and no peaks that are not the thesis'."""
  logs = [
    write_log(tmp_path / f'{workload}_{run}', Job(workload, run, seed))
    for workload, seed in (('molecules', 1), ('ogbg_tox21', 11))
    for run in ('peaks_full', 'peaks_soft', 'diverging_switching')
  ]
  found = [row[:2] for row in results._figures(logs)]
  both = ('fig3.3b', 'fig3.8a')
  assert [row for row in found if row[0] in both] == [
    (name, workload)
    for name in both
    for workload in ('molecules', 'ogbg_tox21')
  ]
  assert [row for row in found if row[0] not in both] == [
    ('fig3.1', 'molecules')
  ]

"""The first lines of RESULTS.md: which claims hold, and which do not."""

import pathlib

import pytest

from reset_cycles.research.thesis import registry as thesis
from reset_cycles.research.thesis import results
from reset_cycles.research.thesis.claims import Finding

FOR, AGAINST, SPLIT, NONE = [1] * 10, [-1] * 10, [1] * 7 + [-1] * 3, [0] * 10


@pytest.mark.parametrize(
  ('votes', 'outcome'),
  [
    ((FOR, FOR, FOR), 'Hold on every workload that has such cycles:'),
    ((FOR, NONE, NONE), 'Hold on every workload that has such cycles:'),
    ((FOR, AGAINST, FOR), 'Hold on some workloads only:'),
    ((FOR, SPLIT, FOR), 'Hold on some workloads only:'),
    ((NONE, NONE, SPLIT), 'Undecided:'),
    ((NONE, NONE, NONE), 'Undecided:'),
    ((AGAINST, SPLIT, NONE), 'Undecided:'),
    ((AGAINST, NONE, NONE), 'Do not hold:'),
    ((AGAINST, AGAINST, AGAINST), 'Do not hold:'),
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


def test_the_first_lines_say_that_claim_9_does_not_hold():
  page = pathlib.Path(thesis.__file__).with_name('RESULTS.md').read_text()
  first, _, _ = page.partition('All workloads are small')
  _, _, failed = first.partition('**Do not hold:**')
  assert failed.split('\n- ')[1:] == [
    'Claim 9: Early switching abandons cycles that fail. Translation 0 : 10.\n\n'
  ]

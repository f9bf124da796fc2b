"""Which of joined rules abandons first: from the logs of a study."""

import pytest

from helpers.log_files import write_trial
from reset_cycles.console import program
from reset_cycles.mini_algoperf import files
from reset_cycles.research.board import speakers
from reset_cycles.research.board.__main__ import board
from reset_cycles.research.run_logs import speakers as named

S_OF_T = 'ChainLossRule: minimum out of reach'
WAY = 'Progress: target out of reach'


@pytest.fixture
def root(tmp_path):
  """Three seeds on `up`; the target, 1.0, is met after 10, 20 or 40 steps."""

  def write(entry, seed, when, *reasons):
    place = tmp_path / f'tuned/{entry}/study_{seed}/up_jax/trial_1'
    steps = (10, 20, 40)
    rows = [(t, t, 1.0 if t == when else 0.5, 1.0) for t in steps]
    write_trial(place, rows)
    events = [{'global_step': 0, 'event': 'cycle_start', 'reason': ''}]
    events += [
      {'global_step': 10, 'event': 'abandon', 'reason': reason}
      for reason in reasons
    ]
    files.write_rows(place / 'cycles.csv', [*events[0]], events)

  # S(t) saves the first one's time, loses the second, and is silent in the third.
  write('by_progress', 1, 40)
  write('by_either', 1, 10, S_OF_T, WAY)
  write('by_progress', 2, 20)
  write('by_either', 2, None, f'{S_OF_T}; {WAY}')
  write('by_progress', 3, 20)
  write('by_either', 3, 20)
  # Which the baseline does not have.
  write('by_either', 4, 20)
  return tmp_path


def test_the_names_in_a_reason():
  assert named(S_OF_T) == 'ChainLossRule'
  assert named(f'{S_OF_T}; {WAY}') == 'ChainLossRule and Progress'
  assert named('loss is not finite') == 'loss is not finite'


def test_who_spoke_first_and_what_became_of_the_runs(root):
  """A quarter of the steps in one run, all of them in another: a half."""
  head, *found = speakers.rows(root, 'by_either', 'by_progress')
  assert head == (
    *('condition', 'spoke first', 'runs', 'reached', 'of the baseline'),
    *('steps', 'lost', 'won'),
  )
  assert [(*row[:5], row[5].split()[0], *row[6:]) for row in found] == [
    ('tuned', 'ChainLossRule', '1', '1', '1', '0.250', '0', '0'),
    ('tuned', 'ChainLossRule and Progress', '1', '0', '1', 'nan', '1', '0'),
    ('tuned', 'all', '3', '2', '3', '0.500', '1', '0'),
    ('tuned', 'nobody', '1', '1', '1', '1.000', '0', '0'),
  ]


def test_the_command(root, capsys):
  words = ('speakers', f'--logs={root}')
  assert program.run(board, 'board', words) == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[1].split() == [
    *('tuned', 'ChainLossRule', '1', '1', '1', '0.250', '[nan,', 'nan]'),
    *('0', '0'),
  ]
  assert program.run(board, 'board', (*words, '--baseline=bare')) == 2
  said = 'has no runs of by_either and bare under the same condition.'
  assert said in capsys.readouterr().err

"""Steps and targets relative to the baseline, of runs whose times are known."""

import math
import pathlib

from helpers.curves_of_runs import board_run
from reset_cycles.cli import main as cli
from reset_cycles.research.board import runs as logs
from reset_cycles.research.board import workload_sets
from reset_cycles.research.board.ablation import page as ablation

NEVER = math.inf


def both(condition, workload, seed, own, bare):
  return [
    board_run('ours', seed, own, condition, workload),
    board_run('bare', seed, bare, condition, workload),
  ]


RUNS = [
  # Ratios 2 and 1/2 of seed 1, 2 and none of seed 2: the third root of 2.
  *both('tuned', 'digits', 1, 20, 10),
  *both('tuned', 'digits', 2, 8, 4),
  *both('tuned', 'text', 1, 5, 10),
  *both('tuned', 'text', 2, NEVER, 10),
  *both('near', 'digits', 1, 10, NEVER),
  *both('near', 'digits', 2, NEVER, NEVER),
  *both('hot', 'digits', 1, 10, NEVER),
  *both('hot', 'text', 1, 12, NEVER),
  *both('cold', 'digits', 1, NEVER, 7),
  *both('failed', 'residual', 1, 10, NEVER),
  *both('tuned_full', 'residual', 1, 3, 6),
  *both('tuned', 'mine', 1, 6, 6),
  board_run('ours', 3, 1),  # bare has no such run
  board_run('theirs', 1, 5, 'hot', 'digits'),
]
PAGE = """\
## Held-out set

Workloads: residual. Seeds: 1.

| submission | failed |
| --- | --- |
| bare | 0 of 1 |
| ours | 1 of 1 |

## Held-out set, at full length

Workloads: residual. Seeds: 1.

| submission | tuned_full |
| --- | --- |
| bare | 1 of 1 |
| ours | 0.50 |

## Selection set

Workloads: digits, text. Seeds: 1, 2, 3.

| submission | tuned | near | hot | cold |
| --- | --- | --- | --- | --- |
| bare | 4 of 4 | 0 of 2 | 0 of 2 | 1 of 1 |
| ours | 1.26 [1.00, 2.00], 1 lost, 0 won | none of both, 0 lost, 1 won | 2 of 2 | 0 of 1 |
| theirs |  |  | 1 of 1 |  |

## Other workloads

Workloads: mine. Seeds: 1.

| submission | tuned |
| --- | --- |
| bare | 1 of 1 |
| ours | 1.00 |

Written by `reset-cycles scoreboard --ablation`; not to be edited by hand.
"""


def test_the_page_by_hand():
  """Draws of seeds: 1 alone 1, 2 alone 2, both the third root of 2."""
  said = ablation.page(RUNS, 'What a person says.')
  intro, line, tables = said.partition('## Held-out set')
  assert line + tables == PAGE
  assert intro.startswith('# Ablation: steps')
  assert 'What a person says.\n\nA cell under' in intro


def test_the_page_of_the_project_is_that_of_its_logs():
  """`make scoreboard` would change nothing."""
  root = pathlib.Path(logs.__file__).with_name('ablation')
  runs = logs.read_all([root / 'logs', root / 'ablation_logs'])
  written = ablation.page(runs, (root / 'READING.txt').read_text())
  assert written == (root / 'ABLATION.md').read_text()


def test_a_draw_without_a_run_that_both_reach_is_left_out():
  runs = [*both('tuned', 'a', 1, 9, 9), *both('tuned', 'a', 2, NEVER, 9)]
  found = ablation.compared(ablation.pairs_of(runs, 'ours', 'tuned'))
  assert found == (1, 1, 1, 1, 0)


def test_the_command_writes_the_page_alone(tmp_path):
  logs.pack(RUNS, tmp_path / 'logs')
  page = tmp_path / 'ABLATION.md'
  words = [f'--logs={tmp_path}/logs', f'--out={page}', '--ablation']
  assert cli.main(['scoreboard', *words]) == 0
  assert page.read_text().endswith(PAGE)
  assert not (tmp_path / 'scoreboard.png').exists()


def test_the_sets_share_nothing_and_hold_the_first_board():
  assert not {*workload_sets.SELECTION} & {*workload_sets.HELD_OUT}
  assert {'digits', 'molecules', 'text', 'translation'} < {
    *workload_sets.SELECTION
  }
  names = workload_sets.workloads_of(['held_out', 'text'])
  assert names == [*workload_sets.HELD_OUT, 'text']

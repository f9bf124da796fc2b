"""Premium and payout of runs whose times are known."""

import math

from helpers.curves_of_runs import board_run
from reset_cycles.cli import main as cli
from reset_cycles.studies.board import ablation, logs, workload_sets

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
## Workloads for choosing

Workloads: digits, text. Seeds: 1, 2, 3.

| submission | tuned | near | hot | cold |
| --- | --- | --- | --- | --- |
| bare | 4 of 4 | 0 of 2 | 0 of 2 | 1 of 1 |
| ours | 1.26 [1.00, 2.00] -1 +0 | none of both -0 +1 | 2 of 2 | 0 of 1 |
| theirs |  |  | 1 of 1 |  |

## Workloads for showing

Workloads: residual. Seeds: 1.

| submission | failed |
| --- | --- |
| bare | 0 of 1 |
| ours | 1 of 1 |

## Workloads for showing, at their full length

Workloads: residual. Seeds: 1.

| submission | tuned_full |
| --- | --- |
| bare | 1 of 1 |
| ours | 0.50 |

## Other workloads

Workloads: mine. Seeds: 1.

| submission | tuned |
| --- | --- |
| bare | 1 of 1 |
| ours | 1.00 |
"""


def test_the_page_by_hand():
  """Draws of seeds: 1 alone 1, 2 alone 2, both the third root of 2."""
  said = ablation.page(RUNS, 'What a person says.')
  intro, line, tables = said.partition('## Workloads for choosing')
  assert line + tables == PAGE
  assert intro.endswith('hand.\n\nWhat a person says.\n\n')


def test_a_draw_without_a_run_that_both_reach_is_left_out():
  runs = [*both('tuned', 'a', 1, 9, 9), *both('tuned', 'a', 2, NEVER, 9)]
  found = ablation.premium_of(ablation.pairs_of(runs, 'ours', 'tuned'))
  assert found == (1, 1, 1, 1, 0)


def test_the_command_writes_the_page_alone(tmp_path):
  logs.pack(RUNS, tmp_path / 'logs')
  page = tmp_path / 'ABLATION.md'
  words = [f'--logs={tmp_path}/logs', f'--out={page}', '--premium']
  assert cli.main(['scoreboard', *words]) == 0
  assert page.read_text().endswith(PAGE)
  other = tmp_path / 'OTHER.md'
  assert cli.main(['scoreboard', words[0], f'--out={other}', words[2]]) == 0
  assert '[ABLATION.md](ABLATION.md) says what' in other.read_text()
  assert not (tmp_path / 'scoreboard.png').exists()


def test_the_halves_share_nothing_and_hold_the_first_board():
  assert not {*workload_sets.CHOOSING} & {*workload_sets.SHOWING}
  assert {'digits', 'molecules', 'text', 'translation'} < {
    *workload_sets.CHOOSING
  }
  names = workload_sets.workloads_of(['showing', 'text'])
  assert names == [*workload_sets.SHOWING, 'text']

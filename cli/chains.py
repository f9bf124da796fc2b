"""`soft-reset replay --chain` and `--search_chains`: flags and actions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from . import arguments, errors

if TYPE_CHECKING:
  from collections.abc import Sequence

  from ..settings.named import Setting
  from ..studies.chains.board import Board
  from ..studies.chains.outcomes import Links
  from ..studies.chains.settings import ChainSetting
  from ..studies.real_runs.reading import RecordedRun

_LENGTH, _BEAM, _LEAST = 3, 40, 3
# Flags that only matter to a search.
_FOR_A_SEARCH = ('settings', 'length', 'beam', 'choose_by', 'bootstrap')


def add_flags(parser: arguments.Parser) -> None:
  """Adds the flags that name chains, or what to choose from and how."""
  group = parser.add_argument_group(
    'chains of settings',
    'Scores sequences of settings of the external ruleset of 2024 as if they '
    'were self-tuning entries: each cycle is the recorded run of a setting, '
    'ended by --policy and followed by the next. The default policy here is a '
    'floor of .1 .55 .65 .72 .78 .83 .88 .93 .97 of the way to the target at '
    '.1, .2, … .9 of the run.',
  )
  group.add_argument(
    '--chain',
    metavar='SETTING,…',
    action='append',
    help='Settings as submission/trial, such as lawa_queue/2,cyclic_lr/3; may '
    'be given several times. A:B is B on workloads where the run of A stopped; '
    'A+B evaluates A and B in turn; A*B evaluates them as the submission '
    'chooses between averaged and raw weights.',
  )
  group.add_argument(
    '--search_chains',
    action=arguments.Switch,
    default=False,
    help='Searches for the best chain, both on all workloads (in sample) and '
    'with each workload left out of the choice.',
  )
  _add_what(group)
  _add_how(group)


def _add_what(group: argparse._ArgumentGroup) -> None:
  group.add_argument(
    '--settings',
    metavar='LIST',
    help='What a search chooses from: all, jax, runnable, replaced, in_turn, '
    'chosen, jax_replaced, jax_in_turn or jax_chosen, all explained in '
    'studies/chains/settings.py; or settings separated by commas. Default: '
    'all.',
  )
  group.add_argument(
    '--length',
    metavar='N',
    type=arguments.whole(1),
    help='Cycles of the longest chains. Default: 3.',
  )
  group.add_argument(
    '--beam',
    metavar='N',
    type=arguments.whole(0),
    help='How many chains of each length are extended to the next; 1 is '
    'greedy, 0 extends all. Default: 40.',
  )


def _add_how(group: argparse._ArgumentGroup) -> None:
  group.add_argument(
    '--choose_by',
    metavar='FACTOR',
    type=arguments.factor,
    help='Budget by which a search chooses. Default: that of --budget.',
  )
  group.add_argument(
    '--with_variants',
    action=arguments.Switch,
    default=False,
    help='Held-out variants count in the choice, too; each is left out '
    'together with its workload.',
  )
  group.add_argument(
    '--race',
    metavar='SHARE',
    type=_share,
    help='The first two settings of a chain race: each gets this share of its '
    'run, then the one that is ahead goes on. A search also considers races, '
    'written A~B. Default: none.',
  )
  group.add_argument(
    '--bootstrap',
    metavar='N',
    type=arguments.whole(1),
    help='Also repeats the choice for N bootstrap draws of the studies.',
  )
  group.add_argument(
    '--least_evaluations',
    metavar='N',
    type=arguments.whole(1),
    help='A run with fewer evaluations costs nothing and reaches nothing; with '
    '1, every run counts. Default: 3.',
  )


def _share(text: str) -> float:
  """The argparse type of a flag that takes a share of a run, in (0, 1]."""
  number = arguments.factor(text)
  if number > 1:
    raise argparse.ArgumentTypeError(f'{text} must be at most 1')
  return number


def wanted(options: argparse.Namespace) -> bool:
  """Whether the flags ask for chains."""
  return bool(options.chain or options.search_chains)


def refuse_without(options: argparse.Namespace) -> None:
  """Refuses flags that mean nothing given the other flags.

  Raises:
    ValueError: if there are any.
  """
  for flag in (*_FOR_A_SEARCH, 'with_variants'):
    if getattr(options, flag) and not options.search_chains:
      raise ValueError(f'--{flag} needs --search_chains.')
  for flag in ('least_evaluations', 'race'):
    if getattr(options, flag) and not wanted(options):
      raise ValueError(f'--{flag} needs --chain or --search_chains.')
  if options.chain and options.search_chains:
    raise ValueError('give either --chain or --search_chains, not both.')
  others = (options.out, options.by == 'submission', options.costs)
  if wanted(options) and any((*others, options.left_out)):
    raise ValueError(
      '--chain and --search_chains allow only --by=workload, and none of '
      '--out, --costs and --left_out.'
    )


def run(options: argparse.Namespace, runs: Sequence[RecordedRun]) -> int:
  """Scores or searches, and prints; returns the exit status.

  Raises:
    SetupError: for bad input.
  """
  from ..settings.named import name_of
  from ..studies.chains import outcomes
  from ..studies.replay import policies, table

  with errors.setup_phase():
    texts = options.policy or [outcomes.FLOOR]
    rules = [policies.read_policy(text) for text in dict.fromkeys(texts)]
    if 'race' in map(name_of, rules):
      raise ValueError(
        '--policy=race: the policy of a chain must be a switching rule; '
        '--race=SHARE makes the first two settings race.'
      )
    budgets = sorted(set(options.budget or table.BUDGETS))
    if options.search_chains:
      lines = _search(options, runs, rules, budgets)
    else:
      lines = _judge(options, runs, rules, budgets)
  print('\n'.join(lines))
  return 0


def _judge(
  options: argparse.Namespace,
  runs: Sequence[RecordedRun],
  rules: Sequence[Setting],
  budgets: Sequence[float],
) -> list[str]:
  from ..studies.chains import judged, text
  from ..studies.chains.settings import read_chain

  chains = [read_chain('--chain', words) for words in options.chain]
  settings = list(dict.fromkeys(one for chain in chains for one in chain))
  board, links, names = _links(options, runs, settings, rules)
  raced = [
    _with_race(options, list(map(str, chain)), names) for chain in chains
  ]
  rows = [
    judged.judge(chain, list(map(names.index, chain)), own, rule, board, budget)
    for chain in raced
    for rule, own in zip(rules, links)
    for budget in budgets
  ]
  if options.json:
    return [json.dumps(text.judged_objects(rows, board), indent=2)]
  return text.judged_lines(rows, board, options.by == 'workload')


def _search(
  options: argparse.Namespace,
  runs: Sequence[RecordedRun],
  rules: Sequence[Setting],
  budgets: Sequence[float],
) -> list[str]:
  from ..studies.chains import luck, search, text
  from ..studies.chains.settings import read_list

  settings = read_list('--settings', options.settings or 'all')
  board, links, names = _links(options, runs, settings, rules)
  scope = search.Scope(
    options.length or _LENGTH,
    _BEAM if options.beam is None else options.beam,
    options.with_variants,
    options.choose_by,
  )
  found = search.ChainSearch(links, board, scope)
  rows = [row for budget in budgets for row in found.best(budget)]
  lucks = [
    one
    for budget in (budgets if options.bootstrap else ())
    for one in luck.luck(links, board, scope, budget, options.bootstrap)
  ]
  words = text.Names(names, rules)
  if options.json:
    return [json.dumps(text.search_objects(rows, words, lucks), indent=2)]
  lines = text.search_lines(rows, words, board, options.by == 'workload')
  return [*lines, *(text.luck_lines(lucks) if lucks else [])]


def _with_race(
  options: argparse.Namespace, chain: list[str], names: Sequence[str]
) -> list[str]:
  """The chain, with its first two settings as one link if they race."""
  if options.race is None:
    return chain
  if len(set(chain[:2])) < 2:
    raise ValueError(
      f'--chain={",".join(chain)}: a race needs two different settings first.'
    )
  entered = ('~'.join(pair) for pair in (chain[:2], chain[1::-1]))
  return [next(name for name in entered if name in names), *chain[2:]]


def _links(
  options: argparse.Namespace,
  runs: Sequence[RecordedRun],
  settings: Sequence[ChainSetting],
  rules: Sequence[Setting],
) -> tuple[Board, list[Links], list[str]]:
  """The board, links under each rule, and their names."""
  from ..studies.chains import board as board_lib
  from ..studies.chains import outcomes, races
  from ..studies.chains.runs import by_point

  board = board_lib.read_board(runs)
  least = options.least_evaluations or _LEAST
  found = outcomes.recorded(settings, by_point(runs), board.workloads, least)
  singles = [outcomes.outcomes(found, rule) for rule in rules]
  if options.race is None:
    links = [outcomes.Links(single, single) for single in singles]
    return board, links, list(map(str, settings))
  probed = races.probes(found, options.race)
  links = [races.with_races(single, probed) for single in singles]
  return board, links, races.link_names(settings)

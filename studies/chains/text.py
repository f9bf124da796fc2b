"""Chains and their scores, for the terminal and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...settings.named import Setting, as_plain
from ..text_table import table_lines
from .board import Board
from .judged import Judgement
from .luck import Luck
from .search import Best, Choice

_NOTE = (
  'score: exact integral among the self-tuning entries of 2024, base workloads',
  'alone; published: trapezoidal rule; held-out: after the rule of the held-out',
  'workloads; variants: score over these alone.',
)


def judged_lines(
  rows: Sequence[Judgement], board: Board, by_workload: bool
) -> list[str]:
  """The scores of chains, one line per chain, policy and budget.

  Args:
    rows: as returned by `judged.judge`.
    board: the entries that they were scored against.
    by_workload: whether to add their times on each workload.
  """
  titles = (
    'chain',
    'policy',
    'budget',
    'score',
    'published',
    'held-out',
    'targets',
    'variants',
    'single studies',
  )
  table = [titles, *(_judged_cells(row, board) for row in rows)]
  lines = [*table_lines(table, width=130), '', *_NOTE]
  for row in rows if by_workload else ():
    lines += ['', *_workload_lines(row, board)]
  return lines


def _judged_cells(row: Judgement, board: Board) -> tuple[str, ...]:
  scores, studies = row.scores, row.by_study
  return (
    ' '.join(row.chain),
    _policy_text(row.policy),
    f'{row.budget:g}×',
    f'{scores.exact:.3f}',
    f'{scores.published:.3f}',
    f'{scores.with_held_out:.3f}',
    f'{scores.targets} of {len(board.base)}',
    f'{scores.variants:.3f}' if board.variants else '-',
    f'{np.median(studies):.3f} ({studies.min():.3f}-{studies.max():.3f})',
  )


def _policy_text(policy: Setting) -> str:
  return policy if isinstance(policy, str) else policy.name


def _workload_lines(row: Judgement, board: Board) -> list[str]:
  """Time to the target as a share of the maximum runtime, by study."""
  head = f'{" ".join(row.chain)} in {row.budget:g}×:'
  studies = [f'study {i}' for i in range(row.seconds.shape[1])]
  table = [('workload', 'of the score', *studies)]
  for name, share, seconds in zip(board.workloads, row.shares, row.seconds):
    times = (t / board.max_runtime[name] for t in seconds.tolist())
    cells = (f'{t:.2f}' if math.isfinite(t) else 'never' for t in times)
    table.append((name, f'{share:.3f}', *cells))
  return [head, *table_lines(table)]


def judged_objects(
  rows: Sequence[Judgement], board: Board
) -> list[dict[str, Any]]:
  """The same as objects for JSON; seconds are None if never reached."""
  return [
    {
      'chain': list(row.chain),
      'policy': as_plain(row.policy),
      'budget': row.budget,
      'score': row.scores.exact,
      'published': row.scores.published,
      'held_out': row.scores.with_held_out,
      'targets': row.scores.targets,
      'variants': _number(row.scores.variants),
      'studies': row.by_study.tolist(),
      'workloads': {
        name: {'share': float(share), 'seconds': list(map(_number, seconds))}
        for name, share, seconds in zip(
          board.workloads, row.shares, row.seconds.tolist()
        )
      },
    }
    for row in rows
  ]


def _number(value: float) -> float | None:
  return float(value) if math.isfinite(value) else None


class Names:
  """Names for the links and policies that a search has found."""

  def __init__(self, links: Sequence[str], policies: Sequence[Setting]) -> None:
    """Takes the links and policies that choices are indices of."""
    self._links, self._policies = links, policies

  def chain(self, choice: Choice) -> list[str]:
    """Names of its links."""
    return [self._links[i] for i in choice.chain]

  def policy(self, choice: Choice) -> Setting:
    """Its policy."""
    return self._policies[choice.policy]

  def cells(self, choice: Choice) -> tuple[str, ...]:
    """Chain and, if there are several, policy."""
    chain = ' '.join(self.chain(choice))
    if len(self._policies) == 1:
      return (chain,)
    return (chain, str(self.policy(choice)))


def search_lines(
  rows: Sequence[Best], names: Names, board: Board, by_workload: bool
) -> list[str]:
  """The best chains, one line per length and budget.

  Args:
    rows: as returned by `ChainSearch.best`.
    names: names of links and policies.
    board: the entries that they were scored against.
    by_workload: whether to add the choice in each fold.
  """
  head = ('chain', 'policy')[: len(names.cells(rows[0].choice))]
  count = len(board.base)
  titles = ('cycles', 'budget', *head, 'in sample', 'targets')
  table = [(*titles, 'left out', 'targets')]
  for row in rows:
    table.append(
      (
        f'{row.length}',
        f'{row.budget:g}×',
        *names.cells(row.choice),
        f'{row.in_sample:.3f}',
        f'{row.targets} of {count}',
        f'{row.left_out:.3f}',
        f'{row.left_out_targets} of {count}',
      )
    )
  lines = table_lines(table, width=130)
  for row in rows if by_workload else ():
    title = ('left out', 'of the score', *head)
    folds = [
      (fold.workload, f'{fold.share:.3f}', *names.cells(fold.choice))
      for fold in row.folds
    ]
    lines += ['', f'At most {row.length} cycles in {row.budget:g}×:']
    lines += table_lines([title, *folds], width=130)
  return lines


def luck_lines(rows: Sequence[Luck]) -> list[str]:
  """A table of the scores over bootstrap draws of the studies."""
  titles = (
    'cycles',
    'budget',
    'in sample',
    'on other studies',
    'left-out workloads',
    'same chain',
    'its score on other studies',
  )
  table = [titles]
  for row in rows:
    spreads = (row.in_sample, row.other_studies, row.left_out)
    table.append(
      (
        f'{row.length}',
        f'{row.budget:g}×',
        *(f'{mid:.3f} ({low:.3f}-{high:.3f})' for low, mid, high in spreads),
        f'{row.same:.0%}',
        f'{row.chosen:.3f}',
      )
    )
  head = 'Chosen anew for draws of the studies, median (5 to 95 %):'
  return ['', head, *table_lines(table, width=130)]


def search_objects(
  rows: Sequence[Best], names: Names, lucks: Sequence[Luck]
) -> list[dict[str, Any]]:
  """The best chains as objects for JSON."""
  found = {(one.length, one.budget): one for one in lucks}
  return [
    {
      'cycles': row.length,
      'budget': row.budget,
      'chain': names.chain(row.choice),
      'policy': as_plain(names.policy(row.choice)),
      'in_sample': row.in_sample,
      'targets': row.targets,
      'left_out': row.left_out,
      'left_out_targets': row.left_out_targets,
      'folds': [
        {
          'workload': fold.workload,
          'chain': names.chain(fold.choice),
          'policy': as_plain(names.policy(fold.choice)),
          'share': fold.share,
          'reached': fold.reached,
        }
        for fold in row.folds
      ],
      **_luck_object(found.get((row.length, row.budget))),
    }
    for row in rows
  ]


def _luck_object(one: Luck | None) -> dict[str, Any]:
  return {} if one is None else {'luck': one._asdict()}

"""Which cycle of a race goes on, and how far."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...settings.kinds import (
  Choice,
  Count,
  ListOf,
  NotNegative,
  Number,
  OrNone,
  Shares,
)
from ..history import MOST_STINTS, OVER, Standing

By = Choice('best', 'last', 'ranks')
Counts = ListOf(Count, 'a list of whole numbers of at least 1')


class Turn(NamedTuple):
  """The next stint."""

  entry: int  # index of the cycle
  until: float  # share of its full length; infinity: to its end


def wrong_rounds(parameters: Mapping[str, Any]) -> str:
  """Why the parameters of a race contradict each other; '' if they do not."""
  rounds, keep = parameters['rounds'], parameters['keep']
  if not 1 <= len(rounds) <= MOST_STINTS:
    return f'rounds has {len(rounds)} numbers; it must have 1 to {MOST_STINTS}'
  if len(keep) != len(rounds) - 1:
    return (
      f'keep has {len(keep)} numbers and rounds {len(rounds)}; keep must have '
      'one fewer, one for each round but the last'
    )
  counts = [parameters['probes'], *keep]
  if any(a < b for a, b in zip(counts, counts[1:])):
    return (
      f'keep is {keep} with {parameters["probes"]} probes; it must not rise, '
      'nor start above probes'
    )
  return ''


@dataclasses.dataclass(frozen=True)
class Tournament:
  """Compares the beginnings of several cycles, and goes on with the best.

  In each round, those in play go on to that round's share of a full cycle, one
  after the other, from where they were paused; then the best `keep` of them
  play the next round. After the last round the best goes on to its end. If it
  is left early, or comes to its end without reaching the target, the next best
  follows from where it was paused, then those of earlier rounds, then those
  that were never in play, in their order. A cycle that the switching rule ends
  is out.

  Attributes:
    probes: how many cycles are in play at first.
    rounds: shares of a full cycle, rising.
    keep: how many play on after each round but the last.
    by: what ranks them: the largest share of the way to the target ('best'),
      the newest one ('last'), or the sum of the ranks by 'best' and by loss
      ('ranks').
    behind: how far those that play on may be behind the best, as a share of the
      way; None for any distance.
    enough: share of the way that the first cycle must have come in the first
      round to go on without a race; None if there is always a race.
  """

  probes: Count = 5
  rounds: Shares = (0.08,)
  keep: Counts = ()
  by: By = 'best'
  behind: OrNone(NotNegative) = None
  enough: OrNone(Number) = None

  def turn(self, entries: Sequence[Standing]) -> Turn | None:
    """The stint that comes next; None if all cycles are over.

    Args:
      entries: all cycles, also those that have not begun; at least one.
    """
    in_play, others = self._line_up(entries)
    for stint, until in enumerate(self.rounds):
      for i in in_play:
        if entries[i].stints <= stint and entries[i].state != OVER:
          return Turn(i, until)
      ranked = self._ranked(entries, in_play, stint)
      in_play = self._kept(entries, ranked, stint)
      others = [i for i in ranked if i not in in_play] + others
    for i in in_play + others:
      if entries[i].state != OVER:
        return Turn(i, math.inf)
    return None

  def _line_up(
    self, entries: Sequence[Standing]
  ) -> tuple[list[int], list[int]]:
    """Indices of those in the first round, and of the others."""
    order, first = list(range(len(entries))), entries[0]
    is_enough = (
      self.enough is not None
      and first.stints > 0
      and first.marks[0].best >= self.enough
    )
    if is_enough and first.state != OVER:
      return order[:1], order[1:]
    if is_enough:  # it went on alone and did not reach the target
      order = order[1:] + order[:1]
    return order[: self.probes], order[self.probes :]

  def _ranked(
    self, entries: Sequence[Standing], in_play: Sequence[int], stint: int
  ) -> list[int]:
    """Indices, the best first; ties stay in order."""
    marks = {i: entries[i].marks[stint] for i in in_play}

    def rank(i: int) -> float:
      if self.by != 'ranks':
        return -getattr(marks[i], self.by)
      by_way = sum(mark.best > marks[i].best for mark in marks.values())
      return by_way + sum(mark.loss < marks[i].loss for mark in marks.values())

    def is_out(i: int) -> bool:
      """Whether it was over by then, and not in a later stint."""
      return entries[i].state == OVER and entries[i].stints <= stint + 1

    return sorted(in_play, key=lambda i: (is_out(i), rank(i)))

  def _kept(
    self, entries: Sequence[Standing], ranked: Sequence[int], stint: int
  ) -> list[int]:
    """Indices of those that play on, the best first."""
    count = self.keep[stint] if stint < len(self.keep) else len(ranked)
    if self.behind is None:
      return list(ranked[:count])
    best = {i: entries[i].marks[stint].best for i in ranked}
    least = max(best.values()) - self.behind
    return [i for i in ranked[:count] if best[i] >= least] or [ranked[0]]

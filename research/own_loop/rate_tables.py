"""Tables of OWN_LOOP.md: the default without a rate beside others' best."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# Metric of a loop, its target (None: of AdamW's run), whether it rises.
LOOPS: dict[str, tuple[str, str, float | None]] = {
  'mlp by accuracy': ('mlp', 'accuracies', 0.985),
  'mlp by loss': ('mlp', 'losses', 0.2),
  'cnn by accuracy': ('cnn', 'accuracies', 0.95),
  'cnn by loss': ('cnn', 'losses', 0.05),
  'transformer by accuracy': ('transformer', 'accuracies', 0.33),
  'transformer by loss': ('transformer', 'losses', 2.0),
  'CIFAR-10 by accuracy': ('cifar', 'accuracies', None),
  'Multi30k by loss': ('captions', 'losses', None),
  'Tox21 by loss': ('tox21', 'losses', None),
}
NAMES = {
  'adamw': 'AdamW, cosine',
  'schedule_free': 'Schedule-Free AdamW',
  'optax_muon': "optax's Muon, cosine",
  'wsd': 'AdamW, one cycle',
  'loop': '`LOOP`, AdamW',
  'ours': '`schedule_free_muon`',
  'one_cycle': 'the same in one cycle',
  'cycles': '`Cycles()`',
}
RIVALS = ('adamw', 'schedule_free', 'optax_muon', 'wsd', 'loop')
_PEAKS = 5
OURS = ('ours', 'one_cycle', 'cycles')
_MAIN = ('adamw', 'schedule_free', *OURS)
Curve = Sequence[float]


class Loop(NamedTuple):
  """The runs of a network by one metric, turned so that it rises."""

  target: float
  sign: int
  untrained: float  # the median loss; for an accuracy 0
  # (arm, number) -> for each seed a curve.
  curves: Mapping[tuple[str, float], Sequence[Curve]]

  def last(self, arm: str, number: float) -> float:
    """The median of the metric at the end."""
    return float(np.median([curve[-1] for curve in self.curves[arm, number]]))

  def reached(self, arm: str, number: float) -> float:
    """The median share of the run to the target; inf where never."""
    goal = self.sign * self.target
    shares = []
    for curve in self.curves[arm, number]:
      hits = np.flatnonzero(self.sign * np.asarray(curve) >= goal)
      shares.append((hits[0] + 1) / len(curve) if len(hits) else np.inf)
    shares.sort()
    # Of an even number, the later one: an average with `never` is none.
    return float(shares[len(shares) // 2])

  def numbers(self, arm: str) -> list[float]:
    """Those that an arm was trained with."""
    return [number for name, number in self.curves if name == arm]

  def with_all_seeds(self, arm: str) -> list[float]:
    """Those of `numbers` with the most seeds.

    A number that seed 0 alone was trained at is not judged beside the others.
    """
    seeds = {
      number: len(self.curves[arm, number]) for number in self.numbers(arm)
    }
    return [number for number in seeds if seeds[number] == max(seeds.values())]

  def is_whole(self, arm: str) -> bool:
    """Whether an arm with peaks was trained with all five."""
    return len(self.numbers(arm)) == (_PEAKS if arm in RIVALS else 1)

  def best_end(self, arm: str) -> float:
    """The number at which an arm ends best."""
    key = lambda number: self.sign * self.last(arm, number)
    return max(self.with_all_seeds(arm), key=key)

  def best_reached(self, arm: str) -> float:
    """The number at which an arm arrives first; or ends best."""
    end = self.best_end(arm)
    key = lambda number: (self.reached(arm, number), number != end)
    return min(self.with_all_seeds(arm), key=key)

  def behind(self, arm: str) -> float:
    """How much worse an arm of ours ends than the best of RIVALS.

    Returns:
      A share of the way from the untrained model to the target.
    """
    rivals = [x for x in RIVALS if self.is_whole(x)]
    best = max(self.sign * self.last(x, self.best_end(x)) for x in rivals)
    way = abs(self.target - self.untrained)
    return (best - self.sign * self.last(arm, 0.0)) / way


def loop_of(rows: Sequence[Mapping[str, str]], name: str) -> Loop:
  """One of LOOPS, of the seeds that each arm has."""
  network, metric, target = LOOPS[name]
  sign = 1 if metric == 'accuracies' else -1
  curves: dict[Any, list[list[float]]] = collections.defaultdict(list)
  for row in rows:
    if row['network'] == network:
      curve = [float(x) for x in row[metric].split()]
      curves[row['arm'], float(row['number'])].append(curve)
  untrained = 0.0
  if sign < 0:
    losses = [float(r['untrained']) for r in rows if r['network'] == network]
    untrained = float(np.median(losses))
  if target is None:
    loop = Loop(0.0, sign, untrained, curves)
    best = curves['adamw', loop.best_end('adamw')]
    at = round(0.75 * len(best[0])) - 1
    target = float(np.median([curve[at] for curve in best]))
  return Loop(target, sign, untrained, curves)


def best_of_seed_0(
  rows: Sequence[Mapping[str, str]], run: Any
) -> tuple[float, ...]:
  """The numbers of a run's arm with which seed 0 ends best or arrives first."""
  names = [name for name in LOOPS if LOOPS[name][0] == run.network]
  of_seed = [row for row in rows if row['seed'] == '0']
  loops = [loop_of(of_seed, name) for name in names]
  ends = [loop.best_end(run.arm) for loop in loops]
  return (*ends, *(loop.best_reached(run.arm) for loop in loops))


def _whole(rows: Sequence[Mapping[str, str]]) -> dict[str, Loop]:
  """The loops of which the log has at least all runs of `_MAIN`."""
  trained = {row['network'] for row in rows}
  loops = {
    name: loop_of(rows, name)
    for name, (network, *_) in LOOPS.items()
    if network in trained
  }
  return {
    name: loop for name, loop in loops.items() if all(map(loop.is_whole, _MAIN))
  }


def _reached(share: float) -> str:
  return 'never' if np.isinf(share) else f'{share:.2f}'


def table(rows: Sequence[Mapping[str, str]]) -> str:
  """For each loop and arm: the metric at the end; the share of the run.

  In brackets each number's best peak.
  """
  arms = list(NAMES)
  lines = [
    f'| loop, target, seeds | {" | ".join(NAMES.values())} |',
    f'|---|{"---|" * len(arms)}',
  ]
  for name, loop in _whole(rows).items():
    cells = []
    for arm in arms:
      if not loop.is_whole(arm):
        cells.append('')
        continue
      end, first = loop.best_end(arm), loop.best_reached(arm)
      last, share = loop.last(arm, end), _reached(loop.reached(arm, first))
      has_peak = arm in RIVALS
      peaks = f' ({end:g}, {first:g})' if has_peak else ''
      cells.append(f'{last:.3f}, {share}{peaks}')
    seeds = len(loop.curves['ours', 0.0])
    head = f'{name}, {loop.target:.3f}, {seeds}'
    lines.append(f'| {head} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def summary(
  rows: Sequence[Mapping[str, str]], names: Sequence[str] = tuple(LOOPS)
) -> str:
  """For each arm of ours: steps over AdamW's, and the end beside the best.

  Args:
    rows: of the log.
    names: of LOOPS; those that are not in the log are left out.
  """
  lines = [
    "| arm | steps over AdamW's, geometric mean (largest) | ends worse than "
    'the best rival by more than 1 % of the way |',
    '|---|---|---|',
  ]
  loops = {k: loop for k, loop in _whole(rows).items() if k in names}
  for arm in OURS:
    ratios, never, worse = [], [], []
    for name, loop in loops.items():
      base = loop.reached('adamw', loop.best_reached('adamw'))
      ours = loop.reached(arm, 0.0)
      if not np.isinf(base) and np.isinf(ours):
        never.append(name)
      elif not np.isinf(base):
        ratios.append(ours / base)
      less = loop.behind(arm)
      if less > 0.01:
        worse.append(f'{name}: {100 * less:.1f} %')
    cells = [f'never in {", ".join(never)}'] if never else []
    if ratios:
      mean = float(np.exp(np.mean(np.log(ratios))))
      many = f'{mean:.2f} ({max(ratios):.2f}) in {len(ratios)} loops'
      cells.insert(0, many)
    text = '; '.join(worse) or 'none'
    lines.append(f'| {NAMES[arm]} | {"; ".join(cells)} | {text} |')
  return '\n'.join(lines)

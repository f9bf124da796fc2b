"""Rules by their names, and when each of them leaves a recorded run.

A rule is one of the submission's switching rules (the very object that a run
uses) on trials that follow one another; or a race with such a rule inside; or
one of two yardsticks. This is the only module of the studies that knows how the
submission decides.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ...core.checks import (
  check,
  check_count,
  check_number,
  did_you_mean,
  is_number,
)
from ...core.workload import Evaluation
from ...core.workload import Target as RunTarget
from ...early_switching import (
  Context,
  Progress,
  SmoothedLossRule,
  SwitchingRule,
  Verdict,
)
from ...soft_reset import progress
from ..real_runs.reading import RecordedRun

BUILT_IN = ('never', 'thesis', 'floor', 'progress', 'race', 'oracle')
_YARDSTICKS: Mapping[str, Callable[[RecordedRun], int]] = {
  # Lets every run come to its end.
  'never': lambda run: run.step.size,
  # Knows the future: leaves at once a run that will not reach its target.
  'oracle': lambda run: 0 if run.reached is None else run.step.size,
}


@dataclasses.dataclass(frozen=True)
class Floor:
  """Leaves a cycle whose metric has come less far than its share demands.

    leave if max p < least[i],  i = max {i : shares[i] <= f}

  p is the progress on a log scale, the maximum over the cycle's evaluations, f
  the share of the cycle. Below shares[0] no cycle is left. The numbers were
  chosen on the very runs on which FINDINGS judges them.

  Attributes:
    shares: shares of the cycle, rising; from each on, its number in `least`
      counts.
    least: progress that must have been made by then.
  """

  shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
  least: tuple[float, ...] = (
    *(0.1, 0.4, 0.55, 0.65, 0.75, 0.82, 0.88, 0.93, 0.965),
  )

  judges_chain: ClassVar[bool] = False
  initial: ClassVar[float] = -math.inf  # the best progress so far
  columns: ClassVar[tuple[str, ...]] = ()

  def __post_init__(self) -> None:
    for name in ('shares', 'least'):
      values = getattr(self, name)
      is_list = isinstance(values, (list, tuple))
      right = is_list and all(map(is_number, values))
      check(right, name, values, 'a list of numbers')
      object.__setattr__(self, name, tuple(values))
    right = len(self.least) == len(self.shares)
    check(right, 'least', self.least, 'as long as shares')

  def observe(
    self, state: float, evaluation: Evaluation, context: Context
  ) -> tuple[float, Verdict]:
    """See `SwitchingRule`."""
    p = progress(evaluation.metric, context.target, context.first_metric, 'log')
    best = state if math.isnan(p) else max(state, p)
    asked = [
      least
      for share, least in zip(self.shares, self.least)
      if share <= context.share
    ]
    is_behind = bool(asked) and best < asked[-1]
    return best, Verdict('behind the floor' if is_behind else '', {})


@dataclasses.dataclass(frozen=True)
class TrialRace:
  """The trials of a study compete, each from a fresh model; none is kept.

  The first `probes` trials get a share of their run each. The best of them goes
  on: from where it is, if it was the last one that was probed, else it begins
  again. If it is left, or ends without its target, the next best begins again,
  and at last those that were not probed, in their order. A trial that the rule
  leaves is out.

  Attributes:
    probes: how many trials are probed, at least 2.
    share: of its run that each probe gets, above 0.
    skip_race_above: share of the way to the target that the first trial must
      have come in its probe to go on without a race; None for always a race.
    rule: the switching rule, by its name or as an object, in the race and after
      it.
  """

  probes: int = 5
  share: float = 0.08
  skip_race_above: float | None = None
  rule: Any = 'floor'

  def __post_init__(self) -> None:
    check_count('probes', self.probes, 2)
    check_number('share', self.share, '(0, 1]')
    if self.skip_race_above is not None:
      check_number('skip_race_above', self.skip_race_above, '(-inf, inf)')


_KINDS: Mapping[str, Callable[..., SwitchingRule | TrialRace]] = {
  'thesis': SmoothedLossRule,
  'floor': Floor,
  'progress': Progress,
  'race': TrialRace,
}


@dataclasses.dataclass(frozen=True)
class Rule:
  """A rule that is replayed.

  Attributes:
    given: its name or its object, as it was given; what tables call it.
    leaves: the rule that ends trials, in a race or one after the other.
    race: the race around it, or None.
  """

  given: Any
  leaves: SwitchingRule | str
  race: TrialRace | None = None

  def __str__(self) -> str:
    if isinstance(self.given, str):
      return self.given
    listed = ', '.join(
      f'{key}={value}' for key, value in self.given.items() if key != 'name'
    )
    return f'{self.given["name"]}({listed})'


def read_rule(text: str) -> Rule:
  """A rule from the command line.

  Raises:
    ValueError: if there is no such rule, or a parameter is wrong.
  """
  given: Any = text
  if text.lstrip().startswith('{'):
    try:
      given = json.loads(text)
    except json.JSONDecodeError as e:
      raise ValueError(f'--rule={text} is not valid JSON: {e}.') from e
  made = _made(given)
  if not isinstance(made, TrialRace):
    return Rule(given, made)
  leaves = _made(made.rule)
  if isinstance(leaves, TrialRace):
    raise ValueError(f'--rule={text}: there is no race in a race.')
  return Rule(given, leaves, made)


def _made(given: object) -> SwitchingRule | TrialRace | str:
  """A switching rule, a race, or a yardstick's name."""
  rest = dict(given) if isinstance(given, dict) else {'name': given}
  name = rest.pop('name', None)
  if not isinstance(name, str):
    raise ValueError(
      f'--rule={given!r} must be a name, or an object with a name.'
    )
  if name in _YARDSTICKS and not rest:
    return name
  if name not in _KINDS:
    known = (*_YARDSTICKS, *_KINDS)
    raise ValueError(
      f'--rule={name}: there is no such rule; there are {", ".join(known)}.'
      + did_you_mean(name, known)
    )
  kind: Any = _KINDS[name]
  fields = [field.name for field in dataclasses.fields(kind)]
  for parameter in rest:
    if parameter not in fields:
      raise ValueError(
        f'--rule: {name} has no parameter {parameter!r}; it has '
        f'{", ".join(fields)}.'
      )
  try:
    return kind(**rest)
  except ValueError as e:
    raise ValueError(f'--rule: {name}: {e}') from e


def left_at(rule: Rule, run: RecordedRun) -> int:
  """The evaluation at which a run is left.

  Args:
    rule: of a race, the one inside.
    run: a run with at least one evaluation.

  Returns:
    Its index; the number of evaluations if the run is never left. Under a
    switching rule, a loss that is missing or not finite ends the run, whatever
    the rule says.
  """
  switching = rule.leaves
  if isinstance(switching, str):
    return _YARDSTICKS[switching](run)
  state, target = switching.initial, _target(run)
  first = float(run.metric[0])
  columns = (run.step, run.loss, run.metric, run.seconds, run.share)
  rows = zip(*(column.tolist() for column in columns))
  for index, (step, loss, metric, seconds, share) in enumerate(rows):
    evaluation = Evaluation(int(step), loss, metric, seconds)
    context = Context(share, target, first)
    state, verdict = switching.observe(state, evaluation, context)
    if verdict.reason or not math.isfinite(loss):
      return index
  return run.step.size


def best_shares(run: RecordedRun, logarithmic: bool = False) -> np.ndarray:
  """The best share of the way to the target so far, shape=(evaluations,)."""
  scale = 'log' if logarithmic else 'linear'
  target, metrics = _target(run), run.metric.tolist()
  shares = np.array([progress(m, target, metrics[0], scale) for m in metrics])
  return np.fmax.accumulate(np.where(np.isnan(shares), -np.inf, shares))


def _target(run: RecordedRun) -> RunTarget:
  return RunTarget(*run.workload.target)

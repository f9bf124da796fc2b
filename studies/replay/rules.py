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
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_count, check_number, did_you_mean
from ...core.evaluation import Evaluation
from ...core.evaluation import Target as RunTarget
from ...early_switching import (
  Context,
  Progress,
  SmoothedLossRule,
  SwitchingRule,
)
from ...parts import settings_json
from ...soft_reset import progress
from ..real_runs.reading import RecordedRun

BUILT_IN = ('never', 'thesis', 'progress', 'race', 'oracle')
_YARDSTICKS: Mapping[str, Callable[[RecordedRun], int]] = {
  # Lets every run come to its end.
  'never': lambda run: run.step.size,
  # Knows the future: leaves at once a run that will not reach its target.
  'oracle': lambda run: 0 if run.reached is None else run.step.size,
}


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
  """

  probes: int = 5
  share: float = 0.08

  def __post_init__(self) -> None:
    check_count('probes', self.probes, 2)
    check_number('share', self.share, '(0, 1]')


_KINDS: Mapping[str, SwitchingRule | TrialRace] = {
  'thesis': SmoothedLossRule(),
  'progress': Progress(),
  'race': TrialRace(),
}


class Rule(NamedTuple):
  """A rule that is replayed."""

  given: Any  # its name, or the object of which it was made
  leaves: SwitchingRule | str  # what ends trials, in a race or in a row
  race: TrialRace | None = None  # around it


def in_words(given: Any) -> str:
  """A rule, as it was given, as pictures and tables call it."""
  if isinstance(given, str):
    return given
  listed = (f'{key}={value}' for key, value in given.items() if key != 'name')
  return f'{given["name"]}({", ".join(listed)})'


def read_rule(text: str) -> Rule:
  """A rule from the command line: a name, or an object of JSON.

  An object has a name, and fields of the rule that differ from its defaults. A
  race also has the rule inside, by its name or as an object; else progress.

  Raises:
    ValueError: if there is no such rule, or a field is wrong.
  """
  given: Any = text
  if text.lstrip().startswith('{'):
    try:
      given = json.loads(text)
    except json.JSONDecodeError as e:
      raise ValueError(f'--rule={text} is not valid JSON: {e}.') from e
  fields = dict(given) if isinstance(given, dict) else {'name': given}
  is_race = fields.get('name') == 'race'
  inner = fields.pop('rule', 'progress') if is_race else None
  made = _made(fields)
  if not isinstance(made, TrialRace):
    return Rule(given, made)
  leaves = _made(inner if isinstance(inner, dict) else {'name': inner})
  if isinstance(leaves, TrialRace):
    raise ValueError(f'--rule={text}: there is no race in a race.')
  return Rule(given, leaves, made)


def _made(given: Mapping[str, Any]) -> SwitchingRule | TrialRace | str:
  """A switching rule, a race, or a yardstick's name."""
  name, known = given.get('name'), (*_YARDSTICKS, *_KINDS)
  if name not in known:
    raise ValueError(
      f'--rule={name}: there is no such rule; there are {", ".join(known)}.'
      + did_you_mean(name, known)
    )
  fields = {key: value for key, value in given.items() if key != 'name'}
  kind = _KINDS.get(name)
  if kind is None and not fields:
    return name
  return settings_json.from_plain(fields, kind, f'--rule={name}')


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


def best_shares(run: RecordedRun) -> np.ndarray:
  """The best share of the way to the target so far, shape=(evaluations,)."""
  target, metrics = _target(run), run.metric.tolist()
  shares = np.array([progress(m, target, metrics[0]) for m in metrics])
  return np.fmax.accumulate(np.where(np.isnan(shares), -np.inf, shares))


def _target(run: RecordedRun) -> RunTarget:
  return RunTarget(*run.workload.target)

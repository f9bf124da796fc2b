"""Rules by their names, and when each of them abandons a recorded run.

A rule is one of the submission's switching rules, the very object that a run
uses, or one of two yardsticks. This is the only module of the studies that
knows how the submission decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.checks import did_you_mean
from ...core.evaluation import Evaluation
from ...core.evaluation import Target as RunTarget
from ...early_switching import (
  Context,
  Progress,
  SmoothedLossRule,
  SwitchingRule,
)
from ...views import settings_json
from .recorded import RecordedRun

BUILT_IN = ('never', 'thesis', 'progress', 'oracle')
_YARDSTICKS: Mapping[str, Callable[[RecordedRun], int]] = {
  # Lets every run come to its end.
  'never': lambda run: run.step.size,
  # Knows the future: abandons at once a run that will not reach its target.
  'oracle': lambda run: 0 if run.reached is None else run.step.size,
}
_KINDS: Mapping[str, SwitchingRule] = {
  'thesis': SmoothedLossRule(),
  'progress': Progress(),
}


class Rule(NamedTuple):
  """A rule that is replayed."""

  given: Any  # its name, or the object of which it was made
  ends: SwitchingRule | str  # what ends trials


def in_words(given: Any) -> str:
  """A rule, as it was given, as pictures and tables call it."""
  if isinstance(given, str):
    return given
  listed = (f'{key}={value}' for key, value in given.items() if key != 'name')
  return f'{given["name"]}({", ".join(listed)})'


def read_rule(text: str) -> Rule:
  """A rule from the command line: a name, or an object of JSON.

  An object has a name, and fields of the rule that differ from its defaults.

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
  name, known = fields.pop('name', None), (*_YARDSTICKS, *_KINDS)
  if name not in known:
    raise ValueError(
      f'--rule={name}: there is no such rule; there are {", ".join(known)}.'
      + did_you_mean(name, known)
    )
  kind = _KINDS.get(name)
  if kind is None and not fields:
    return Rule(given, name)
  return Rule(given, settings_json.from_plain(fields, kind, f'--rule={name}'))


def abandoned_at(rule: Rule, run: RecordedRun) -> int:
  """The evaluation at which a run, which has at least one, is abandoned.

  Returns:
    Its index; the number of evaluations if that never happens. Under a
    switching rule, a loss that is missing or not finite ends the run, whatever
    the rule says.
  """
  switching = rule.ends
  if isinstance(switching, str):
    return _YARDSTICKS[switching](run)
  state, target = switching.initial, RunTarget(*run.workload.target)
  columns = (run.step, run.loss, run.metric, run.seconds, run.share)
  rows = zip(*(column.tolist() for column in columns))
  first = None
  for index, (step, loss, metric, seconds, share) in enumerate(rows):
    evaluation = Evaluation(int(step), loss, metric, seconds)
    first = first or evaluation
    context = Context(share, target, first)
    state, verdict = switching.observe(state, evaluation, context)
    if verdict.reason or not math.isfinite(loss):
      return index
  return run.step.size

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

import numpy as np

from ...core.checks import did_you_mean
from ...core.evaluation import Evaluation
from ...core.evaluation import Target as RunTarget
from ...early_switching import (
  AnyOf,
  ChainLossRule,
  Context,
  Progress,
  SmoothedLossRule,
  SwitchingRule,
)
from ...views import settings_json
from .recorded import RecordedRun

BUILT_IN = ('never', 'thesis', 'progress', 'loss', 'either', 'oracle')
_YARDSTICKS: Mapping[str, Callable[[RecordedRun], int]] = {
  # Lets every run come to its end.
  'never': lambda run: run.step.size,
  # Knows the future: abandons at once a run that will not reach its target.
  'oracle': lambda run: 0 if run.reached is None else run.step.size,
}
_KINDS: Mapping[str, SwitchingRule] = {
  'thesis': SmoothedLossRule(),
  'progress': Progress(),
  'loss': ChainLossRule(),
  'either': AnyOf((ChainLossRule(), Progress())),
}


class Rule(NamedTuple):
  """A rule that is replayed."""

  given: Any  # its name, or the object of which it was made
  ends: SwitchingRule | str  # what ends trials


class Sight(NamedTuple):
  """What a rule sees of a run, and until when it is heard."""

  evaluations: int | None = None  # of a whole run; None: as many as there are
  first_half: bool = False  # of a run only, as in a timed one


EVERYTHING = Sight()


class End(NamedTuple):
  """Where a rule abandons a run, and why."""

  at: int  # index of the evaluation; the number of evaluations if it never does
  reason: str = ''  # empty if the run ends without the rule


def in_words(given: Any) -> str:
  """A rule, as it was given, as pictures and tables call it."""
  if isinstance(given, list):
    return f'[{", ".join(map(in_words, given))}]'
  if not isinstance(given, dict):
    return f'{given}'
  fields = given.items()
  listed = (f'{key}={in_words(v)}' for key, v in fields if key != 'name')
  return f'{given.get("name", "")}({", ".join(listed)})'


def read_rule(text: str) -> Rule:
  """A rule from the command line: a name, or an object of JSON.

  An object has a name, and fields of the rule that differ from its defaults.

  Raises:
    ValueError: if there is no such rule, or a field is wrong.
  """
  given: Any = text
  if text.lstrip().startswith('{'):
    try:
      given = settings_json.loads(text)
    except json.JSONDecodeError as e:
      raise ValueError(f'--rule={text} is not valid JSON: {e}.') from e
    except ValueError as e:
      raise ValueError(f'--rule={text}: {e}') from e
  fields = dict(given) if isinstance(given, dict) else {'name': given}
  name, known = fields.pop('name', None), (*_YARDSTICKS, *_KINDS)
  if name is None:
    raise ValueError(
      f'--rule={text}: "name" is missing; use one of {", ".join(known)}.'
    )
  if name not in known:
    raise ValueError(
      f'--rule={name}: there is no such rule; there are {", ".join(known)}.'
      + did_you_mean(name, known)
    )
  kind = _KINDS.get(name)
  if kind is None and not fields:
    return Rule(given, name)
  return Rule(given, settings_json.from_plain(fields, kind, f'--rule={name}'))


def seen_of(run: RecordedRun, evaluations: int | None) -> list[int]:
  """Indices of the evaluations that a rule sees.

  Of n in a whole run, the first one at or after each n-th part of it: with the
  share f, one for each value of floor(n f). None: all of them.
  """
  if evaluations is None:
    return list(range(run.step.size))
  # A share that is meant to be a whole number of parts may be just below it.
  parts = np.floor(evaluations * run.share + 1e-9)
  return np.unique(parts, return_index=True)[1].tolist()


def abandoned_at(
  rule: Rule, run: RecordedRun, sight: Sight = EVERYTHING
) -> End:
  """The evaluation at which a run, which has at least one, is abandoned.

  Under a switching rule, a loss that is missing or not finite ends the run,
  whatever the rule says.
  """
  switching = rule.ends
  if isinstance(switching, str):
    return End(_YARDSTICKS[switching](run))
  state, target = switching.initial, RunTarget(*run.workload.target)
  columns = (run.step, run.loss, run.metric, run.seconds, run.share)
  rows = list(zip(*(column.tolist() for column in columns)))
  first = None
  for index in seen_of(run, sight.evaluations):
    step, loss, metric, seconds, share = rows[index]
    evaluation = Evaluation(int(step), loss, metric, seconds)
    first = first or evaluation
    context = Context(share, target, first)
    state, verdict = switching.observe(state, evaluation, context)
    if not math.isfinite(loss):
      return End(index)
    if verdict.reason and not (sight.first_half and share > 0.5):
      return End(index, verdict.reason)
  return End(run.step.size)

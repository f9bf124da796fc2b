"""Policies by their names, and when a recorded run is left.

A policy is one of the submission's switching rules (the very object that a run
uses) on trials that follow one another; or the submission's race with such a
rule inside; or one of two yardsticks.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Protocol, Union

from ...control.policies.tournament import Tournament, wrong_rounds
from ...control.state import Evaluation, Target
from ...control.switching import SWITCHING_RULES, Context, SwitchingRule
from ...settings.named import Registry, Setting
from ..real_runs.reading import RecordedRun

# What ends a trial, in a race or with one trial after the other.
RULES = Registry('rule', base=SWITCHING_RULES)
POLICIES = Registry('policy', base=RULES)
BUILT_IN = ('never', 'thesis', 'floor', 'progress', 'race', 'oracle')
RuleSetting = RULES.as_kind()


class Yardstick(Protocol):
  """Sees a whole run at once."""

  def left_at(self, run: RecordedRun) -> int:
    """The evaluation at which the run is left; see `left_at`."""


Replayed = Union[SwitchingRule, Yardstick, 'RaceOfTrials']


@POLICIES.register(name='race', check=wrong_rounds)
@dataclasses.dataclass(frozen=True)
class RaceOfTrials(Tournament):
  """The trials of a study compete in a race, like the settings of a run.

  Attributes:
    switching: the rule that ends trials, in the race and after it.
  """

  switching: RuleSetting = 'floor'


@RULES.register(name='never')
@dataclasses.dataclass(frozen=True)
class Never:
  """Lets every run come to its end."""

  def left_at(self, run: RecordedRun) -> int:
    """See `Yardstick`."""
    return run.step.size


@RULES.register(name='oracle')
@dataclasses.dataclass(frozen=True)
class Oracle:
  """Knows the future: leaves at once a run that will not reach its target."""

  def left_at(self, run: RecordedRun) -> int:
    """See `Yardstick`."""
    return 0 if run.reached is None else run.step.size


def read_policy(text: str) -> Setting:
  """A policy from the command line.

  Args:
    text: a name, or JSON of an object with a name and parameters.

  Raises:
    ValueError: if there is no such policy, or a parameter is wrong.
  """
  value: object = text
  if text.lstrip().startswith('{'):
    try:
      value = json.loads(text)
    except json.JSONDecodeError as e:
      raise ValueError(f'--policy={text} is not valid JSON: {e}.') from e
  return POLICIES.read('--policy', value)


def left_at(policy: Replayed, run: RecordedRun) -> int:
  """The evaluation at which a run is left.

  Args:
    policy: as made from a setting by `POLICIES`.
    run: a run with at least one evaluation.

  Returns:
    Its index; the number of evaluations if the run is never left. Under a
    switching rule, a loss that is missing or not finite ends the run, whatever
    the rule says.
  """
  if isinstance(policy, RaceOfTrials):
    return left_at(RULES.make(policy.switching), run)
  if isinstance(policy, (Never, Oracle)):
    return policy.left_at(run)
  workload, state = run.workload, policy.initial
  target = Target(workload.metric, workload.target, workload.rises)
  first = float(run.metric[0])
  columns = (run.step, run.loss, run.metric, run.seconds, run.share)
  rows = zip(*(column.tolist() for column in columns))
  for index, (step, loss, metric, seconds, share) in enumerate(rows):
    evaluation = Evaluation(int(step), loss, metric, seconds)
    context = Context(share, share, target, first)
    state, verdict = policy.observe(state, evaluation, context)
    if verdict.reason or not math.isfinite(loss):
      return index
  return run.step.size

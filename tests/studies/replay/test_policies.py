"""Where policies leave recorded runs."""

from __future__ import annotations

import math

import pytest

from recorded import FALLING, make_run
from reset_cycles.control.switching import SWITCHING_RULES, Verdict
from reset_cycles.studies.replay import policies

NAN = math.nan


def left_at(text, run):
  return policies.left_at(
    policies.POLICIES.make(policies.read_policy(text)), run
  )


REACHES = make_run([10, 20, 30, 40], [0.2, 0.5, 1.0, 0.9])
FAILS = make_run([10, 20, 30, 40], [0.2, 0.3, 0.3, 0.3])


def test_the_yardsticks():
  broken = make_run([10, 20, 30], [0.1, 0.2, 0.3], [1.0, NAN, 1.0])
  for run in (REACHES, FAILS, broken):
    assert left_at('never', run) == run.step.size
  assert left_at('oracle', REACHES) == 4
  assert left_at('oracle', FAILS) == 0


def test_rules_see_one_evaluation_after_the_other():
  assert left_at('floor', REACHES) == 4
  assert left_at('floor', FAILS) == 1  # .4 is asked at f = .2
  assert (
    left_at('{"name": "floor", "shares": [0.3], "least": [0.31]}', FAILS) == 2
  )
  assert left_at('progress', FAILS) == 1
  rises = make_run([10, 20, 30], [0.9] * 3, [1.0, 1.5, 2.0])
  assert left_at('thesis', rises) == 1


def test_what_a_rule_is_told():
  seen = []

  class Listening:
    initial = 0

    def observe(self, state, evaluation, context):
      seen.append((evaluation, context))
      return state + 1, Verdict('enough' if state else '', {})

  run = make_run([10, 30], [4.0, 2.0], [3.0, 2.5], workload=FALLING)
  run = run._replace(step=run.step * 2)
  assert policies.left_at(Listening(), run) == 1
  target = ('wer', 1.0, False)
  assert seen == [
    ((20, 3.0, 4.0, 10.0), (0.2, 0.2, target, 4.0)),
    ((60, 2.5, 2.0, 30.0), (0.6, 0.6, target, 4.0)),
  ]
  assert isinstance(seen[0][0].step, int)


@pytest.mark.parametrize('loss', [NAN, math.inf])
def test_a_loss_that_is_not_finite_ends_a_run_whatever_the_rule(loss):
  class Patient:
    initial = ()

    def observe(self, state, evaluation, context):
      return (), Verdict('', {})

  run = make_run([10, 20], [0.5, 0.5], [1.0, loss])
  assert policies.left_at(Patient(), run) == 1


@pytest.mark.parametrize(
  'text, message',
  [
    ('thesi', 'must be one of .* Did you mean thesis'),
    ('{"name": "floor"', 'is not valid JSON'),
    ('{"name": "progress", "fair": 2}', r'--policy\.fair=2: .* from 0 to 1'),
    ('{"name": "never", "fair": 2}', 'never has no parameter fair'),
    ('{"name": "race", "probes": 0}', 'a whole number of at least 1'),
    ('{"name": "race", "keep": [2]}', 'race: keep has 1 numbers and rounds 1'),
    (
      '{"name": "race", "switching": "thesi"}',
      r'--policy\.switching.* Did you mean thesis',
    ),
  ],
)
def test_policies_that_are_none(text, message):
  with pytest.raises(ValueError, match=message):
    policies.read_policy(text)


def test_a_race_leaves_where_its_rule_leaves():
  race = '{"name": "race", "switching": "%s"}'
  for rule, run in (('floor', FAILS), ('floor', REACHES), ('progress', FAILS)):
    assert left_at(race % rule, run) == left_at(rule, run)


def test_policies_are_the_submissions_own_rules():
  assert set(policies.POLICIES) == {
    *SWITCHING_RULES,
    'never',
    'oracle',
    'race',
  }
  assert set(policies.BUILT_IN) <= set(policies.POLICIES)
  for name in SWITCHING_RULES:
    assert policies.POLICIES[name] is SWITCHING_RULES[name]

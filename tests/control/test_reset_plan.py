"""Which reset a cycle starts with: every case, by hand."""

from __future__ import annotations

import math

import pytest

from replay import make_params, rules_of
from reset_cycles.control import decide, reset_plan
from reset_cycles.control.decide import Decision
from reset_cycles.soft_reset import Reset

FULL, NOTHING = Reset(1.0, 0.0, False), Reset(0.0, 1.0, True)
NAN = math.nan


def planned(mode='soft', start='', finite=True, known=True, tau=None, **seen):
  """The plan after an evaluation at half of the way; alpha is 0.5."""
  rules = rules_of(make_params(reset_mode=mode), 6)
  now = {'last_loss': 1.0, 'last_metric': 0.5, 'first_metric': 0.1, **seen}
  control = decide.start(rules)._replace(number=2, start=4, **now)
  decision = Decision(
    control, decide.first_clock(rules), decide.RESET, [], was_evaluated=known
  )
  return reset_plan.plan(rules, decision, start, lambda: finite, tau)


@pytest.mark.parametrize(
  ('case', 'expected'),
  [
    ({}, (Reset(0.5, 0.75, True), 'soft', '')),
    ({'last_metric': 1.0}, (NOTHING, 'soft', '')),
    ({'finite': False}, (FULL, 'soft', '')),
    ({'last_loss': NAN}, (FULL, 'soft', '')),
    ({'last_metric': math.inf}, (FULL, 'soft', '')),
    # What an earlier cycle has come to says nothing of this one.
    (
      {'known': False, 'last_loss': NAN},
      (NOTHING, 'soft', 'no evaluation in the cycle: tau is 0'),
    ),
    ({'known': False, 'finite': False}, (FULL, 'soft', '')),
    ({'mode': 'full'}, (FULL, 'full', '')),
    ({'mode': 'kept_momentum'}, (Reset(1.0, 1.0, True), 'kept_momentum', '')),
    ({'start': 'fresh'}, (FULL, 'full', '')),
    ({'mode': 'cyclic', 'start': 'fresh'}, (FULL, 'full', '')),
    # The thesis' cyclic training touches nothing, come what may.
    ({'mode': 'cyclic', 'finite': False}, (NOTHING, 'cyclic', '')),
    ({'start': 'current'}, (NOTHING, 'cyclic', '')),
    ({'start': 'current', 'known': False}, (NOTHING, 'cyclic', '')),
    ({'tau': lambda metric, first, step: 0.2}, (Reset(0.2, 0.9, True),)),
    ({'tau': lambda *seen: sum(seen[1:]) / 8.2}, (Reset(0.5, 0.75, True),)),
  ],
)
def test_every_case(case, expected):
  assert tuple(planned(**case))[: len(expected)] == expected


@pytest.mark.parametrize('mode', ['soft', 'full', 'cyclic'])
@pytest.mark.parametrize('wrong', [{'finite': False}, {'last_loss': NAN}])
def test_a_diverged_model_is_not_gone_on_with(mode, wrong):
  assert planned(mode, 'current', **wrong) == (
    FULL,
    'full',
    'the current model is not finite',
  )


@pytest.mark.parametrize('tau', [-0.1, 1.1, NAN])
def test_a_tau_that_is_no_share(tau):
  with pytest.raises(ValueError, match=r'^tau\(0.5, 0.1, 4\)=.* in \[0, 1\]'):
    planned(tau=lambda *_: tau)


@pytest.mark.parametrize(('stops', 'reason'), [(0, 'scheduled'), (1, 'early')])
def test_its_event(stops, reason):
  rules = rules_of(make_params(), 6)
  ended = decide.start(rules)
  started = ended._replace(
    number=2, num_early_stops=stops, last_metric=0.5, last_eval_step=3
  )
  plan = reset_plan.ResetPlan(Reset(0.5, 0.75, True), 'soft', 'so')
  assert reset_plan.event(plan, rules, ended, started) == {
    'event': 'reset',
    'cycle': 2,
    'reason': reason,
    'mode': 'soft',
    'tau': 0.5,
    'alpha': 0.5,
    'metric': 0.5,
    'metric_step': 3,
    'note': 'so',
  }

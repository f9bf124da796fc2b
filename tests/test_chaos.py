"""Random tapes through the decisions of a run: what must hold on any of them.

`make chaos` takes many times as many tapes.
"""

import dataclasses
import functools
import itertools
import math
import os

import hypothesis
import numpy as np
from hypothesis import strategies as st

from helpers.replay import config_of, make_params, replay
from reset_cycles.core.evaluation import Evaluation
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.engine import control as control_lib
from reset_cycles.engine.state import clock_of, from_words, to_words
from reset_cycles.schedule_params import SCHEDULE_PARAMS
from reset_cycles.soft_reset import Cyclic, FullReset, KeptMomentum, SoftReset

TIMES = int(os.environ.get('CHAOS', '1'))
STEP_HINT = 40
settings = functools.partial(
  hypothesis.settings, deadline=None, derandomize=TIMES == 1, database=None
)

LOSSES = st.one_of(
  st.floats(0, 1e3), st.sampled_from([math.nan, math.inf, -math.inf, 1e30])
)
METRICS = st.one_of(st.floats(-1, 2), st.sampled_from([math.nan, math.inf]))


# Seconds between evaluations: a clock may stand still, jump or say nothing.
SECONDS = st.one_of(
  st.floats(0.1, 20), st.sampled_from([0.0, 5e-324, math.nan, math.inf, 1e308])
)


@st.composite
def tapes(draw):
  """{step that it is seen at: [(step, loss, metric, seconds)]}."""
  found, step, seconds = {}, 1, 0.0
  for _ in range(draw(st.integers(0, 12))):
    seconds += draw(SECONDS)
    late = draw(st.integers(0, 2))
    row = (step, draw(LOSSES), draw(METRICS), seconds)
    found.setdefault(step + late, []).append(row)
    step += late + draw(st.integers(1, 25))
  return found


@st.composite
def configs(draw):
  """A RunConfig of small cycles, and of any parts."""
  count = draw(st.integers(1, 4))
  lengths = draw(st.tuples(*[st.sampled_from([0.5, 1.0, 3.0])] * count))
  thesis = SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=2, m=2)
  modes = [SoftReset(fade=2.0), FullReset(), KeptMomentum(), Cyclic()]
  params = make_params(
    count,
    lengths,
    repeat=draw(st.booleans()),
    reset=draw(st.sampled_from(modes)),
    switching=draw(st.sampled_from([thesis, Progress(min_share=0.1)])),
    horizon=draw(st.sampled_from([None, TimeHorizon()])),
    early_switching=draw(st.booleans()),
  )
  budget = draw(st.sampled_from([math.nan, 50.0, 300.0]))
  most_steps = draw(st.sampled_from([math.inf, 60.0]))
  return config_of(params, STEP_HINT, budget=budget, most_steps=most_steps)


def through_words(control, like):
  """As a checkpoint brings it back; nothing may be lost."""
  restored = from_words(to_words(control), like)
  np.testing.assert_array_equal(to_words(restored), to_words(control))
  return restored


@settings(max_examples=60 * TIMES)
@hypothesis.given(config=configs(), tape=tapes())
def test_what_holds_on_every_tape(config, tape):
  like = control_lib.start(config)
  save = functools.partial(through_words, like=like)
  events, last, nominal_steps = replay(config, None, tape, until=200, save=save)
  starts = [e for e in events if e['event'] == 'cycle_start']
  steps = [e['global_step'] for e in starts]
  assert steps == sorted(set(steps))
  assert [e['cycle'] for e in starts] == list(range(1, len(starts) + 1))
  seen = {}
  for event in events:
    if event['event'] in ('cycle_start', 'clock'):
      assert event['cycle_end'] > event['global_step']
      assert event['rate_factor'] > 0 and event['pace'] > 0
    elif event['event'] == 'evaluation':
      if event['evaluation'] > 0:  # 0: a late one, of an earlier cycle
        seen[event['cycle']] = event['loss'] + event['metric']
    elif event['event'] == 'reset':
      # No broken model goes on into a cycle, whatever the reset is.
      assert 0 <= event['tau'] <= 1
      if not math.isfinite(seen.get(event['cycle'] - 1, 0.0)):
        assert (event['reset'], event['tau']) == ('FullReset', 1.0)
  assert all(t >= 0 for _, t in nominal_steps)
  lengths = [cycle.steps for cycle in config.chain.cycles]
  shares = [t / lengths[i] for i, t in nominal_steps]
  for share, later in itertools.pairwise(shares):
    # A cycle goes forward, also as another one; or a new one has been started.
    assert later > share or later == 0
  assert clock_of(last.control, config).peak > 0
  assert last.control.end > last.control.start


@settings(max_examples=40 * TIMES)
@hypothesis.given(config=configs(), step=st.integers(1, 30))
def test_a_loss_that_is_not_finite_ends_the_cycle_at_once(config, step):
  changed = dataclasses.replace(config.settings, early_switching=True)
  config = config._replace(settings=changed)
  tape = {step: [(step, math.nan, 0.1, 1.0)]}
  events, last, _ = replay(config, None, tape, until=step + 1)
  kinds = {e['event'] for e in events if e['global_step'] == step}
  assert last.run_is_over or last.reset_plan is not None
  assert {'reset', 'finish'} & kinds


@settings(max_examples=60 * TIMES)
@hypothesis.given(
  count=st.integers(3, 10),
  rest=st.floats(0.05, 0.95),
  steps=st.integers(150, 400),
  plan=st.floats(0.5, 2.0),
  fails=st.none() | st.integers(2, 10),
)
def test_few_evaluations(count, rest, steps, plan, fails):
  """So many regular evaluations, and part of an interval, are the budget.

  The steps that were planned may be half or twice of those that there are.
  """
  hint = int(steps * plan / SCHEDULE_PARAMS.budget_factor)
  interval, budget = steps / (count + rest), float(count + rest)
  config = config_of(SCHEDULE_PARAMS, hint, budget=budget)
  evaluated = [1 + math.ceil(i * interval) for i in range(count + 1)]
  tape = {
    step: [(step, math.nan if i == fails else 1.0, 0.3 + i / 50, i)]
    for i, step in enumerate(evaluated)
  }
  waited, control = 0, control_lib.start(config)
  for step in range(steps):
    new = [Evaluation(*row) for row in tape.get(step, ())]
    given = control, new, step, config
    after = control_lib.transition(*given, lambda: True)
    control = after.control
    waited += step >= control.end
    for event in after.events:
      kind, fewest = event['event'], 3 * control.intervals.median_steps
      if kind in ('cycle_start', 'clock'):
        is_last = kind == 'clock' and control.end == control.planned_end
        assert is_last or control.end - control.start >= fewest
      if kind == 'reset' and event['reset'] == 'SoftReset':
        assert not event['note']
  assert waited <= 0.05 * steps

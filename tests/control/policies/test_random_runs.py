"""Drawn runs of queues and races: what holds whatever is evaluated."""

from __future__ import annotations

import math

import numpy as np
import pytest

from replay import make_params, rules_of
from reset_cycles.control import decide
from reset_cycles.control.history import OPEN
from reset_cycles.control.state import Evaluation, from_words, to_words
from reset_cycles.schedules import cycle_clock


class Drawn:
  """A horizon that moves at random, the same for the same evaluations."""

  initial = (0,)

  def __init__(self, binds, moves):
    self.binds, self.moves = binds, moves

  def observe(self, state, timing):
    horizon = timing.horizon
    if self.moves:
      factor = 0.8 + 0.4 * ((timing.step * 0.618) % 1.0)
      horizon = max(int(horizon * factor), timing.step + 1)
    return (state[0] + 1,), min(horizon, 2000)


def random_rules(seed):
  rng = np.random.default_rng(seed)
  n = int(rng.integers(1, 4))
  queue = {'name': 'queue', 'then': str(rng.choice(['', 'fresh', 'best']))}
  probes = int(rng.integers(2, 6))
  keep = int(rng.integers(1, probes + 1))
  race = {
    'name': 'race',
    'probes': probes,
    'rounds': [0.05, 0.15],
    'keep': [keep],
    'scales': [1.0, 3.0, 0.3],
    'by': str(rng.choice(['best', 'last', 'ranks'])),
    'enough': None if rng.random() < 0.5 else 0.3,
    'behind': None if rng.random() < 0.5 else 0.2,
  }
  params = make_params(
    n,
    policy=race if seed % 2 else queue,
    wait=bool(rng.random() < 0.5),
    lengths=tuple(rng.choice([0.5, 1.0, 2.0], n).tolist()),
    budget_factor=1.0,
  )
  rules = rules_of(params, int(rng.integers(40, 120)))
  moves = bool(rng.random() < 0.5)
  horizon = Drawn(bool(rng.random() < 0.5), moves)
  every = int(rng.integers(2, 25))
  seen = {
    step: Evaluation(
      step,
      float(
        rng.choice(
          [1.0, 1.01, 1.02, 9.0, math.nan], p=[0.5, 0.3, 0.15, 0.04, 0.01]
        )
      ),
      float(rng.choice([rng.random(), math.nan], p=[0.97, 0.03])),
    )
    for step in range(every, 400, every)
  }
  return rules._replace(horizon=horizon), seen


def run(rules, seen, save=lambda control: control):
  """(step, control, clock, decision) before each of 400 steps."""
  control, clock = decide.start(rules), decide.first_clock(rules)
  for step in range(400):
    new = [seen[step]] if step in seen else []
    before = control
    decision = decide.decide(save(control), clock, new, step, rules)
    control, clock = decision.control, decision.clock
    yield step, before, control, clock, decision


@pytest.mark.parametrize('block', range(4))
def test_what_holds_in_every_run(block):
  for seed in range(15 * block, 15 * block + 15):
    rules, seen = random_rules(seed)
    paused, local = {}, 0.0
    for step, before, control, clock, decision in run(rules, seen):
      at = cycle_clock.local_step_on_host(clock, step)
      # It never ends, and every stint has a step.
      assert decision.action != decide.FINISH
      assert control.cycle_end > control.start >= 0 and control.horizon > 0
      assert 0 <= control.began < control.until <= 1
      assert math.isfinite(float(clock.pace)) and clock.pace > 0
      assert sum(one.state == OPEN for one in control.history) == 1
      assert control.history[control.slot].state == OPEN
      if decision.action == decide.RESET:
        if decision.paused >= 0:
          paused[decision.paused] = local
        if decision.start_from == 'paused':
          # From where it was paused, to a rounding of float32.
          assert at == pytest.approx(paused.pop(control.slot), abs=1e-3)
        else:
          assert at == 0
      else:  # The clock goes on, and does not jump.
        assert control.slot == before.slot
        assert at == pytest.approx(local, abs=1e-3)
      local = at + float(clock.pace)
      assert decide.due(control) > step or seen.get(step) is None


@pytest.mark.parametrize('block', range(2))
def test_saving_and_restoring_before_every_step_changes_nothing(block):
  def through_words(control):
    words = np.frombuffer(to_words(control).tobytes(), np.int32)
    return from_words(words, decide.start(rules))

  for seed in range(5 * block, 5 * block + 5):
    rules, seen = random_rules(seed)
    plain, saved = list(run(rules, seen)), list(run(rules, seen, through_words))
    assert repr(saved) == repr(plain)

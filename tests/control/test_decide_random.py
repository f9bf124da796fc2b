"""Decisions of 200 drawn runs against the twin, and through save and restore."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
import reference_run
from replay import PEAK, make_params, replay, rules_of, tape
from reset_cycles.control import decide, reset_plan
from reset_cycles.control.state import (
  Evaluation,
  Target,
  from_words,
  to_words,
)

NAN, INF = math.nan, math.inf


def random_run(seed):
  """A configuration and evaluations, drawn."""
  rng = np.random.default_rng(seed)
  n = int(rng.integers(1, 6))
  policy = str(rng.choice(['finish', 'hold', 'repeat']))
  params = make_params(
    n,
    # A held rate must not be zero.
    decays=('cosine',) * (n - 1)
    + ('holding_exponential' if policy == 'hold' else 'cosine',),
    lengths=tuple(rng.choice([0.3, 1.0, 1.7, 4.0], n).tolist()),
    budget_factor=float(rng.choice([0.7, 1.0, 2.0])),
    policy=policy,
    reset_mode=str(rng.choice(['soft', 'soft', 'full', 'cyclic'])),
    early_switching=bool(rng.random() < 0.85),
    wait=seed % 3 == 0,
    switching={
      'name': 'thesis',
      'lam': float(rng.choice([0.3, 0.5, 0.7, 1.0])),
      'eps1': float(rng.choice([0.01, 0.05, 0.2])),
      'eps2': float(rng.choice([0.0, 0.01, 0.1])),
      'k': int(rng.integers(1, 5)),
      'm': int(rng.integers(1, 5)),
    },
  )
  step_hint = int(rng.integers(10, 80))
  while 0 in reference.cycle_lengths(step_hint, params):
    step_hint += 1  # a plan must give every cycle a step
  steps = reference.horizon(step_hint, params) + 15
  every = int(rng.integers(1, 6))
  seen = np.arange(rng.integers(0, every + 1), steps, every)
  losses = random_losses(rng, seen.size)
  metrics = np.abs(rng.normal(0.5, 0.3, seen.size))
  metrics[rng.random(seen.size) < 0.03] = NAN
  evaluations = list(zip(seen.tolist(), losses.tolist(), metrics.tolist()))
  return params, step_hint, evaluations, steps, bool(rng.random() < 0.5)


def random_losses(rng, size):
  """A noisy decay, a random walk or a stair, with accidents."""
  t = np.arange(size)
  losses = {
    0: 0.3 + np.exp(-t / 10) + rng.normal(0, 0.03, size),
    1: 1 + np.cumsum(rng.normal(0, 0.05, size)),
    2: np.round(0.3 + np.exp(-t / 6) + rng.normal(0, 0.02, size), 1),
  }[int(rng.integers(3))]
  accidents = rng.random(size) < 0.01
  losses[accidents] = rng.choice([NAN, INF, 1e30, 1e39], accidents.sum())
  return losses


def assert_same_events(found, expected):
  """The same tape and the same numbers, to the last bit."""
  expected = [e for e in expected if e['event'] != 'reset']
  assert tape(found) == tape(expected)
  for event, twin in zip(found, expected):
    assert event.keys() == twin.keys()
    numbers = [k for k, v in twin.items() if not isinstance(v, str)]
    np.testing.assert_array_equal(
      [event[k] for k in numbers], [twin[k] for k in numbers], str(event)
    )


def taus(params, step_hint, evaluations, until, target):
  """tau of every reset, as a run works it out; the model itself is finite."""
  rules = rules_of(params, step_hint, target)
  control, clock = decide.start(rules), decide.first_clock(rules)
  seen_at, found = {e[0]: Evaluation(*e) for e in evaluations}, []
  for step in range(until):
    new = [seen_at[step]] if step in seen_at else []
    decision = decide.decide(control, clock, new, step, rules)
    control, clock = decision.control, decision.clock
    if decision.action == decide.FINISH:
      break
    if decision.action == decide.RESET:
      planned = reset_plan.plan(rules, decision, '', lambda: True)
      found.append(planned.reset.tau)
  return found


@pytest.mark.parametrize('block', range(10))
def test_random_runs_agree_with_twin(block):
  for seed in range(20 * block, 20 * block + 20):
    params, step_hint, evaluations, until, rising = random_run(seed)
    arguments = (params, step_hint, evaluations)
    twin = reference_run.run(*arguments, 0.4, rising, until)
    events, _, local_steps = replay(*arguments, until)
    assert_same_events(events, twin.events)
    target = Target('validation/metric', 0.4, rising)
    found = taus(*arguments, until, target)
    expected = [tau for (tau,) in twin.of('reset', 'tau')]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    lengths = reference.cycle_lengths(step_hint, params)
    rates = [
      reference.cycle_rate(min(t, lengths[i]), lengths[i], params, i)
      for i, t in local_steps
    ]
    # The pace is saved in float32; the steepest warm-up here takes one step.
    peak = max(params.alter_lr) + PEAK
    atol = peak * max(lengths) * 2.0**-23
    np.testing.assert_allclose(rates, twin.rates, rtol=0, atol=atol)


def test_random_runs_are_of_all_kinds():
  kinds = set()
  for seed in range(200):
    params, step_hint, evaluations, until, rising = random_run(seed)
    twin = reference_run.run(params, step_hint, evaluations, 0.4, rising, until)
    kinds |= {(e['event'], e.get('reason')) for e in twin.events}
    kinds |= {'partial' for (t,) in twin.of('reset', 'tau') if 0 < t < 1}
  assert kinds == {
    ('cycle_start', None),
    ('evaluation', None),
    ('switch', 'loss rises'),
    ('switch', 'minimum out of reach'),
    ('switch', 'loss is not finite'),
    ('reset', 'early'),
    ('reset', 'scheduled'),
    ('hold', None),
    ('finish', 'cycles have run out'),
    ('wait', 'the annealed model has not been evaluated'),
    'partial',
  }


def through_words(control):
  """Saved and restored, as by a checkpoint."""
  stored = to_words(control).tobytes()
  return from_words(np.frombuffer(stored, np.int32), control)


@pytest.mark.parametrize('block', range(4))
def test_saving_and_restoring_before_every_step_changes_nothing(block):
  for seed in range(10 * block, 10 * block + 10):
    params, step_hint, evaluations, until, _ = random_run(seed)
    arguments = (params, step_hint, evaluations, until)
    plain = replay(*arguments)
    restored = replay(*arguments, save=through_words)
    assert repr(plain) == repr(restored)

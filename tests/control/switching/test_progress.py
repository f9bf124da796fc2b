"""What is missing against what may come: by hand, and against a slow twin."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest

from replay import make_params, replay, tape
from reset_cycles.control import decide
from reset_cycles.control.state import Evaluation, Target, from_words, to_words
from reset_cycles.control.switching import SWITCHING_RULES, Context
from reset_cycles.schedule_params import THESIS, make_rules

NAN, INF = math.nan, math.inf
RISING = Target('validation/x', 1.0, True)
FALLING = Target('validation/x', 1.0, False)
LOST = 'target out of reach'


def make(**parameters):
  setting = {'name': 'progress', **parameters}
  return SWITCHING_RULES.make(SWITCHING_RULES.read('switching', setting))


def watch(evaluations, target=RISING, first=NAN, **parameters):
  """Verdicts on [(f, loss, metric)], one after the other."""
  rule = make(**parameters)
  state, verdicts = rule.initial, []
  for f, loss, metric in evaluations:
    context = Context(f, f, target, first)
    state, verdict = rule.observe(state, Evaluation(1, loss, metric), context)
    verdicts.append(verdict)
  return verdicts


def reasons(*args, **kwargs):
  return [verdict.reason for verdict in watch(*args, **kwargs)]


def terms(verdicts, name):
  return pytest.approx([v.terms[name] for v in verdicts], abs=1e-12)


def test_a_whole_cycle():
  cycle = [
    (0.125, 4.0, 0.25),  # before its fair share
    (0.25, 2.0, 0.5),  # the loss has halved since f / 2
    (0.5, 1.5, 0.5),
    (0.75, 1.5, 0.9375),
    (0.875, 1.5, NAN),
    (1.0, 1.5, 0.875),
  ]
  verdicts = watch(cycle)
  assert [v.reason for v in verdicts] == ['', '', LOST, '', '', '']
  best = [0.25, 0.5, 0.5, 0.9375, 0.9375, 0.9375]
  assert [v.terms['best_progress'] for v in verdicts] == best
  assert [v.terms['missing'] for v in verdicts] == [1 - b for b in best]
  fall = math.log(2 / 1.5)
  falls = [0, math.log(2), fall, fall, fall, 0]
  assert falls == terms(verdicts, 'loss_fall')
  # Increments .25, 0, .4375: the median is .25, that of what they are off it
  # .1875.
  noise = 2 * 1.4826 * 0.1875
  assert [
    0.04 + 0.875 * 0.3,
    0.04 + 0.75 * (0.3 + 0.1 * 0.25),
    0.04 + 0.5 * 0.3,
    0.04 + noise + 0.25 * (0.3 + 0.1 * 0.4375),
    0.04 + noise + 0.125 * (0.3 + 0.1 * 0.4375),
    0.04 + noise,
  ] == terms(verdicts, 'to_come')


def test_a_metric_that_falls():
  # From 5 to 1: at 2 three quarters of the way are done.
  cycle = [(0.25, 1.0, 5.0), (0.5, 1.0, 2.0), (1.0, 1.0, 2.0)]
  verdicts = watch(cycle, FALLING, first=5.0)
  assert [v.terms['progress'] for v in verdicts] == [0.0, 0.75, 0.75]
  # .25 is missing; .04 + .5 (.3 + .1 * .75) = .2275, and .04 at the end.
  assert [v.reason for v in verdicts] == [LOST, LOST, LOST]
  assert reasons(cycle, FALLING, first=5.0, margin=0.25) == [LOST, '', '']


def test_stagnation_with_a_loss_that_falls():
  cycle = [(i / 16, 3.0 - i / 16, 0.5) for i in range(1, 9)]
  # From f = .1875 on more than .04 + .3 (1 - f) = .28375 is missing.
  assert reasons(cycle) == ['', '', *6 * [LOST]]
  thesis = SWITCHING_RULES.make('thesis')
  state = thesis.initial
  for f, loss, metric in cycle:
    context = Context(f, f, RISING, NAN)
    state, verdict = thesis.observe(state, Evaluation(1, loss, metric), context)
    assert verdict.reason == ''


def test_a_cycle_has_its_fair_share():
  cycle = [(f, 1.0, 0.0) for f in (0.01, 0.1, 0.1499, 0.15)]
  assert reasons(cycle) == ['', '', '', LOST]
  assert reasons(cycle, fair=0.1) == ['', LOST, LOST, LOST]


@pytest.mark.parametrize('loss', [NAN, INF, -INF])
def test_a_loss_that_is_not_finite_ends_a_cycle_at_once(loss):
  assert reasons([(0.01, loss, 0.9)]) == ['loss is not finite']


def test_no_finite_metric_at_all():
  assert reasons([(f, 1.0, NAN) for f in (0.1, 0.2, 1.0)]) == ['', LOST, LOST]


def test_losses_of_zero_and_less_say_nothing():
  cycle = [(0.25, 0.0, 0.9), (0.5, -3.0, 0.9), (1.0, 2.0, 0.99)]
  assert reasons(cycle) == ['', '', '']
  assert [0, 0, 0] == terms(watch(cycle), 'loss_fall')


def naive(evaluations, target, first):
  """The formula over lists, with nothing kept from one to the next."""
  found = []
  for n in range(1, len(evaluations) + 1):
    f, loss, y = map(np.array, zip(*evaluations[:n]))
    p = y if target.rising else (first - y) / (first - 1.0)
    p = np.where(np.isfinite(p), p, NAN)
    best = np.fmax.accumulate(np.where(np.isnan(p), -INF, p))
    lowest = np.minimum.accumulate(np.where(loss > 0, loss, INF))
    past = np.flatnonzero(f <= f[-1] / 2)
    half = max(past[-1] if past.size else 0, n - 32, 0)
    steps = np.diff(p[-11:])
    steps = steps[np.isfinite(steps)]
    sigma = 0.0
    if steps.size >= 3:
      sigma = 1.4826 * np.median(np.abs(steps - np.median(steps)))
    gain = best[-1] - (best[half] if np.isfinite(best[half]) else 0.0)
    may = 0.04 + 2 * sigma + max(0, 1 - f[-1]) * (0.3 + 0.1 * gain)
    fall = np.log(lowest[half] / lowest[-1])
    lost = f[-1] >= 0.15 and fall <= 0.5 and 1 - best[-1] > may
    found.append((LOST if lost else '', may, fall))
  return found


@pytest.mark.parametrize('seed', range(20))
@pytest.mark.parametrize('target', [RISING, FALLING])
def test_against_a_slow_twin(target, seed):
  rng = np.random.default_rng(seed)
  n = 120
  f = np.cumsum(rng.uniform(0.2, 1.8, n)) / n
  way = rng.uniform(0.3, 0.9) * (1 - np.exp(-f / rng.uniform(0.05, 0.6)))
  way += rng.normal(0, 0.02, n)
  metric = way.copy() if target.rising else 7.0 - 6.0 * way
  metric[rng.random(n) < 0.05] = NAN
  metric[0] = 0.125 if target.rising else 7.0
  loss = np.exp(rng.normal(0, 0.1, n) - 3 * way)
  cycle = list(zip(f.tolist(), loss.tolist(), metric.tolist()))
  verdicts = watch(cycle, target, first=7.0)
  expected = naive(cycle, target, 7.0)
  assert [v.reason for v in verdicts] == [reason for reason, _, _ in expected]
  assert [may for _, may, _ in expected] == terms(verdicts, 'to_come')
  assert [fall for _, _, fall in expected] == terms(verdicts, 'loss_fall')


@pytest.mark.parametrize('seed', range(5))
def test_units_change_nothing(seed):
  rng = np.random.default_rng(seed)
  f = np.arange(1, 41) / 40
  loss = np.exp(-5 * f * rng.random() + rng.normal(0, 0.1, 40))
  metric = 1 + 7 * np.exp(-f / rng.uniform(0.1, 0.5))
  cycle = list(zip(f, loss, metric))
  expected = watch(cycle, FALLING, first=8.0)
  assert {v.reason for v in expected} == {'', LOST}
  for factor in (1e-3, 1024.0, 3.7e5):
    scaled = [(f, factor * loss, y) for f, loss, y in cycle]
    verdicts = watch(scaled, FALLING, first=8.0)
    assert [v.reason for v in verdicts] == [v.reason for v in expected]
  percent = [(f, loss, 128 * y) for f, loss, y in cycle]
  target = Target('validation/x', 128.0, False)
  assert watch(percent, target, first=1024.0) == expected


def test_its_state_is_numbers_that_a_run_saves():
  rules = make_rules(
    100, dataclasses.replace(THESIS, switching='progress'), RISING
  )
  control = decide.start(rules)
  leaves = jax.tree_util.tree_leaves(control.switching)
  assert len(leaves) == 4 * 32
  assert {type(leaf) for leaf in leaves} == {float}
  for step, metric in ((3, 0.25), (5, 0.5)):
    control, _ = decide.observe(control, Evaluation(step, 1.0, metric), rules)
  saved = to_words(control)
  restored = from_words(saved, decide.start(rules))
  np.testing.assert_array_equal(to_words(restored), saved)
  assert restored.switching.best[-2:] == (0.25, 0.5)


def test_a_run_leaves_the_cycle():
  params = make_params(switching='progress', early_switching=True)
  events, _, _ = replay(params, 60, [(10, 1.0, 0.25), (20, 1.0, 0.25)])
  assert tape(events)[:5] == [
    (0, 'cycle_start', 1, 40),
    (10, 'evaluation', 1, 1),
    (10, 'switch', 1, LOST),
    (10, 'cycle_start', 2, 65),
    (20, 'evaluation', 2, 1),
  ]

"""Conditions change the stand-in as they say, and nothing else."""

import inspect
import math
import types

import jax
import numpy as np
import pytest

from helpers.trees import assert_same
from reset_cycles.mini_algoperf import spec
from reset_cycles.mini_algoperf.workloads import get_workload
from reset_cycles.research.board import conditions, measure_targets, stand_in
from reset_cycles.research.board.conditions import CONDITIONS, get_condition

TARGETS = {
  'tuned': 0.05,
  'near': 0.04,
  'slow': 0.1,
  'runs': {'tuned': {'peak': 0.028}},
}


def make(condition, name='digits'):
  return stand_in.make_workload(name, condition, TARGETS)


@pytest.mark.parametrize(
  ('name', 'said'),
  [
    ('tunde', 'tunde.*unknown.*Did you mean tuned'),
    ('tuned@x', 'positive number'),
    ('tuned@-1', 'positive number'),
    ('tuned@nan', 'positive number'),
  ],
)
def test_other_names_are_refused(name, said):
  with pytest.raises(ValueError, match=said):
    get_condition(name)


def test_rates_under_hot_and_cold_are_those_of_the_best_peak():
  # The best peak is 0.028, twice the reference.
  found = [
    stand_in.rate_factor(get_condition(name), TARGETS)
    for name in ('tuned', 'tuned@3', 'hot', 'cold', 'hot@2')
  ]
  twice = 0.028 / conditions.REFERENCE_PEAK
  assert found == pytest.approx([1, 3, 10 * twice, 0.1 * twice, 20 * twice])


def test_each_condition_has_its_target():
  values = {
    name: make(CONDITIONS[name]).validation_target_value
    for name in (*conditions.SCORED, 'hot', 'cold')
  }
  assert values == {
    'tuned': 0.05, 'near': 0.04, 'slow': 0.1, 'hot': 0.05, 'cold': 0.05,
  }  # fmt: skip


def test_a_workload_may_keep_its_own_length():
  own = get_workload('digits')
  kept = make(get_condition('tuned_full'))
  for name in ('step_hint', 'eval_every_steps', 'default_batch_size'):
    assert getattr(kept, name) == getattr(own, name)
  assert make(CONDITIONS['tuned']).step_hint < own.step_hint


def test_what_is_computed_is_the_workloads_whatever_the_factor(key):
  """Same logits and metrics from parameters that are a tenth as large."""
  found = []
  for factor in (1.0, 10.0):
    workload = make(conditions.Condition(rate_factor=factor))
    params, state = workload.init_model_fn(key)
    queue = workload._build_input_queue(key, 'train', None, 64)
    batch = next(queue)

    def logits(params, batch, state, workload=workload):
      return workload.model_fn(
        params, batch, state, spec.ForwardPassMode.EVAL, None, False
      )[0]

    metrics = workload.eval_model(768, params, state, key, None, None, 0)
    found.append((logits(params, batch, state), metrics, params))
    signature = inspect.signature(workload.model_fn)
    assert 'dropout_rate' in signature.parameters
  (plain, metrics, p), (scaled, same, q) = found
  np.testing.assert_allclose(plain, scaled, rtol=1e-3, atol=1e-4)
  assert metrics == pytest.approx(same, rel=1e-4)
  assert set(metrics) == {
    'validation/error_rate', 'validation/loss', 'validation/num_examples',
  }  # fmt: skip
  jax.tree_util.tree_map(
    lambda a, b: np.testing.assert_allclose(a, 10 * b, rtol=1e-5), p, q
  )


def test_only_the_first_model_of_a_run_has_failed(key):
  """At 30 times a peak of .028, for 30 of 300 steps: 4.6."""
  workload, sound = make(CONDITIONS['failed']), make(CONDITIONS['tuned'])
  whole = sound.init_model_fn(key)[0]
  for _ in range(2):
    workload.is_started = False
    first, again = (workload.init_model_fn(key)[0] for _ in range(2))
    change = np.concatenate([
      np.ravel(a - b)
      for a, b in zip(*map(jax.tree_util.tree_leaves, (first, whole)))
    ])  # fmt: skip
    assert change.std() == pytest.approx(30 * 0.028 * 30**0.5, rel=0.03)
    assert_same(again, whole)


@pytest.mark.parametrize(('name', 'factor'), [('large', 10), ('small', 0.1)])
def test_every_fresh_model_has_such_weights(key, name, factor):
  """Vectors are as usual; the model computes with what is trained."""
  workload, sound = make(CONDITIONS[name]), make(CONDITIONS['tuned'])
  whole = sound.init_model_fn(key)[0]
  for _ in range(2):
    params, state = workload.init_model_fn(key)
    pairs = zip(*map(jax.tree_util.tree_leaves, (params, whole)))
    for found, usual in pairs:
      expected = usual * factor if usual.ndim >= 2 else usual
      np.testing.assert_allclose(found, expected, rtol=1e-6)
  found = workload.eval_model(768, params, state, key, None, None, 0)
  assert found == sound.eval_model(768, params, state, key, None, None, 0)


def test_what_the_model_reads_is_ten_times_as_large(key):
  """Tokens are as usual; training and evaluation read the same."""
  usual, tenfold = make(CONDITIONS['tuned']), make(CONDITIONS['inputs'])
  batch = {'inputs': np.arange(6, dtype=np.float32).reshape(2, 3)}
  np.testing.assert_array_equal(usual._model_inputs(batch), batch['inputs'])
  expected = [[0, 10, 20], [30, 40, 50]]
  np.testing.assert_array_equal(tenfold._model_inputs(batch), expected)
  tokens = {'inputs': np.arange(4, dtype=np.int32)}
  np.testing.assert_array_equal(tenfold._model_inputs(tokens), [0, 1, 2, 3])
  clicks = make(CONDITIONS['inputs'], 'clicks')
  four_numbers_six_categories = np.arange(1, 11, dtype=np.float32)[None]
  np.testing.assert_array_equal(
    clicks._model_inputs({'inputs': four_numbers_six_categories}),
    [[10, 20, 30, 40, 5, 6, 7, 8, 9, 10]],
  )
  params, state = usual.init_model_fn(key)
  tenfold.init_model_fn(key)
  found, plain = (
    workload.eval_model(768, params, state, key, None, None, 0)
    for workload in (tenfold, usual)
  )
  assert found != plain


@pytest.mark.parametrize(
  ('sign', 'tuned', 'near'), [(1, 15, 15 * 1.02), (-1, 7, 7 * 0.98)]
)
def test_targets_are_medians_at_the_best_peak(sign, tuned, near, monkeypatch):
  """Seed 205 counts as the worst; 0.0025, where a seed diverges, is not taken."""

  def train(point, seed):
    peak = point.learning_rate
    diverges = seed == 205 or (peak, seed) == (0.0025, 202)
    value = 10 + 5 * sign * (peak == 0.02) + seed - 204
    return math.nan if diverges else value, None

  trainer = types.SimpleNamespace(of_length=lambda steps: trainer, train=train)
  workload = types.SimpleNamespace(
    **{'name': 'x', 'target_metric_name': 'm', 'metric_rises': sign > 0},
    **{'step_hint': 100, 'eval_batch_size': 1},
    eval_model=lambda size, value, *rest: {'validation/m': value},
  )
  monkeypatch.setattr(measure_targets, 'Trainer', lambda *unused: trainer)
  monkeypatch.setattr(stand_in, 'make_workload', lambda *unused: workload)
  found = measure_targets.measure('x')
  assert (found['slow'], found['tuned'], found['near']) == (tuned, tuned, near)
  assert {run['peak'] for run in found['runs'].values()} == {0.02}

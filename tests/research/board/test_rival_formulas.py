"""Rivals' schedules at steps worked out by hand, and their optimizers."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from helpers import fake_benchmark, reference
from reset_cycles.research.board.rivals import (
  ademamix,
  common,
  nadamw_budget,
  published_muon,
  sgdr,
)

PEAK = common.BASELINE.learning_rate
GRADS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
START = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def run(optimizer, grads=GRADS, start=START):
  """Parameters after every step, and the last state."""
  params, found = jnp.asarray(start), []
  state = optimizer.init(params)
  for grad in grads:
    updates, state = optimizer.update(jnp.asarray(grad), state, params)
    params = optax.apply_updates(params, updates)
    found.append((params, state))
  return found


def test_the_baselines_rate():
  rate = common.warmup_cosine(common.BASELINE, 100)  # a warm-up of 2 steps
  shares = {0: 0.0, 1: 0.5, 2: 1.0, 51: 0.5, 100: 0.0, 170: 0.0}
  found = [float(rate(step)) / PEAK for step in shares]
  np.testing.assert_allclose(found, list(shares.values()), atol=1e-6)


def test_the_rate_over_the_budget():
  shares = {0.0: 0.0, 0.01: 0.5, 0.02: 1.0, 0.51: 0.5, 1.0: 0.0, 1.2: 0.0}
  found = [float(nadamw_budget.rate_at(used)) / PEAK for used in shares]
  # The cosine has not begun in the warm-up.
  np.testing.assert_allclose(found, list(shares.values()), atol=1e-6)


def test_sgdrs_cycles_double():
  rate = sgdr.restarts(1.0, 10.0)
  # Cycles begin at 0, 10, 30, 70 and 150, and are half down half way.
  for begin, end in ((0, 10), (10, 30), (30, 70), (70, 150)):
    assert float(rate(jnp.float32(begin))) == pytest.approx(1.0, abs=1e-4)
    half = float(rate(jnp.float32((begin + end) / 2)))
    assert half == pytest.approx(0.5, abs=1e-4)
    assert float(rate(jnp.float32(end - 0.1))) < 1e-3


def test_ademamix_warms_up():
  assert ademamix.warmup_steps(133_333) == 500_000
  assert ademamix.warmup_steps(200) == 750
  assert float(ademamix.beta3_at(0, 750.0)) == pytest.approx(0.8, abs=1e-6)
  assert float(ademamix.beta3_at(750, 750.0)) == pytest.approx(0.9995)
  # Half way its half-life is the mean of 3.106 and 1385.9 steps.
  lives = [np.log(0.5) / np.log(beta) for beta in (0.8, 0.9995)]
  half = float(ademamix.beta3_at(375, 750.0))
  assert half == pytest.approx(0.5 ** (1 / np.mean(lives)), rel=1e-6)


def test_the_rate_follows_the_time():
  workload = fake_benchmark.TinyWorkload(100)
  workload.max_allowed_runtime_sec = 100  # a budget of 150 s
  driver = fake_benchmark.Driver(nadamw_budget, workload, {})
  driver.run(until=10)
  state = driver.optimizer_state[0]
  assert float(state.used) == pytest.approx(10 / 150)
  # Ten steps took 30 s: each takes a fiftieth.
  driver.eval_results = [(10, {'accumulated_submission_time': 30.0})]
  driver.run(until=15)
  state = driver.optimizer_state[0]
  assert float(state.pace) == pytest.approx(1 / 50)
  assert float(state.used) == pytest.approx(15 / 50)


def test_muon_steps_along_orthogonalised_momentum():
  """Matrices by hand in float64; what is none goes NadamW's way."""
  rng = np.random.default_rng(3)
  shapes = {'bias': (5,), 'Embed_0': (6, 5), 'conv': (4, 3, 5)}
  like = lambda: {
    name: rng.normal(size=shape).astype(np.float32)
    for name, shape in shapes.items()
  }
  begin, grads = like(), [like() for _ in range(6)]
  assert published_muon.kinds(begin) == {
    'bias': 'rest', 'Embed_0': 'rest', 'conv': 'matrix',
  }  # fmt: skip
  tx = published_muon.optimizer(8, 1.5)
  params, state = begin, tx.init(begin)
  w, m = np.float64(begin['conv']).reshape(4, 15), np.zeros((4, 15))
  for t, grad in enumerate(grads):
    updates, state = tx.update(grad, state, params)
    params = optax.apply_updates(params, updates)
    rate = 0.0001357495179 * 0.5 * (1 + np.cos(np.pi * t / 8))
    m = 0.9560745273 * m + (1 - 0.9560745273) * grad['conv'].reshape(4, 15)
    step = np.sqrt(15 / 4) * reference.orthogonalised(m) + 0.02397563985 * w
    w = w - 28.61130298 * rate * step
    np.testing.assert_allclose(
      params['conv'].reshape(4, 15), w, rtol=1e-4, atol=1e-5
    )
  # NadamW's first step: (1 + b1) g / |g|, and the decay.
  first, _ = tx.update(grads[0], tx.init(begin), begin)
  b1 = 0.96586744
  direction = (1 + b1) * np.sign(grads[0]['bias']) + 0.01275028385 * begin[
    'bias'
  ]
  np.testing.assert_allclose(
    first['bias'], -0.0001357495179 * direction, rtol=1e-4
  )

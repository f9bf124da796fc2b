"""Workload `text`: causality and perplexity."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from reset_cycles.mini_algoperf.workloads.text import (
  LanguageModel,
  TextWorkload,
)


def test_no_position_sees_a_later_one():
  model = LanguageModel(vocab_size=7, features=8, num_heads=2)
  tokens = np.array([[1, 2, 3, 4, 5, 6]], np.int32)
  variables = model.init(jax.random.PRNGKey(0), tokens, False, False, 0.0)
  logits = jax.jit(lambda t: model.apply(variables, t, False, False, 0.0))
  changed = tokens.copy()
  changed[0, 3] = 0
  before, after = logits(tokens), logits(changed)
  np.testing.assert_array_equal(before[:, :3], after[:, :3])
  assert (np.abs(before - after)[:, 3:].max(axis=-1) > 1e-4).all()


def test_perplexity_is_that_of_the_mean_loss():
  """Losses ln 2 and ln 8 have the geometric mean 4; the third is padding."""
  outputs = {
    'loss': np.array([[math.log(2), math.log(8), 0]], np.float32),
    'weights': np.array([[1, 1, 0]], np.float32),
  }
  result = TextWorkload()._metrics(outputs)
  assert result == pytest.approx({'loss': math.log(4), 'ppl': 4}, rel=1e-6)
  diverged = {**outputs, 'loss': outputs['loss'] * 1e30}
  assert TextWorkload()._metrics(diverged)['ppl'] == math.inf

"""Workload `translation`: BLEU and teacher forcing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reset_cycles.mini_algoperf import spec
from reset_cycles.mini_algoperf.workloads import translation
from reset_cycles.mini_algoperf.workloads.translation import (
  TranslationWorkload,
)

KEY = jax.random.PRNGKey(0)


@pytest.fixture(scope='module')
def workload():
  made = TranslationWorkload()
  made.params, _ = made.init_model_fn(KEY)
  return made


def test_padding_counts_for_no_metric(workload):
  words = [p for p in translation.language() if p[0] == '_'][:6]
  # One of six words is wrong, the fifth: of the n-grams 5/6, 3/5, 2/4 and 1/3
  # are right. The lengths agree: no brevity penalty.
  wrong = [*words[:4], words[0], words[5]]
  bleu = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
  for rows in ([words], [words, []]):
    weights = (translation.encode(rows) > 0).astype(np.float32)
    weights[1:] = 0
    outputs = {
      'loss': 2.0 * weights,
      'accuracy': 0.5 * weights,
      'translations': translation.encode([wrong, *rows[1:]]),
      'targets': translation.encode(rows),
      'weights': weights,
    }
    # A translation ends at its first end marker.
    outputs['translations'][:, -1] = translation.encode([words])[0, 0]
    expected = {'loss': 2.0, 'accuracy': 0.5, 'bleu': bleu}
    assert workload._metrics(outputs) == pytest.approx(expected)


def test_teacher_forcing_sees_the_targets(workload):
  """The model is given the translations up to the token before."""
  size = jax.local_device_count()
  batch = next(workload._build_input_queue(KEY, 'train', None, size))
  changed = {**batch, 'targets': jnp.full_like(batch['targets'], 5)}

  @jax.jit
  def logits(params, batch):
    mode = spec.ForwardPassMode.EVAL
    return workload.model_fn(params, batch, None, mode, None, False)[0]

  first, second = (logits(workload.params, b) for b in (batch, changed))
  np.testing.assert_allclose(first[:, 0], second[:, 0], atol=1e-5)
  assert not np.allclose(first[:, 1:], second[:, 1:])

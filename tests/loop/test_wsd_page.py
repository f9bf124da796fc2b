"""The page on WSD: its code as it is written, and the rates that it takes."""

import contextlib
import io
import itertools
import re

import jax.numpy as jnp
import numpy as np

from helpers.documents import ROOT, blocks


def test_the_code_of_the_page_goes_on_without_a_warm_up():
  page = blocks(ROOT / 'docs' / 'wsd.md')
  code = ''.join(b.text for b in page if b.language == 'python')
  [printed] = [b.text for b in page if not b.language]
  kept = 'cycles.before_step(step, state)'
  assert code.count(kept) == 1
  code = code.replace(
    kept, f'{kept}; rates.append(cycles.learning_rate(state))'
  )
  rates = []
  names = {
    'init': lambda key: {'w': jnp.ones(3)},
    'loss_fn': lambda params, batch: jnp.sum((params['w'] - batch) ** 2),
    'batches': itertools.repeat(jnp.zeros(3)),
    'rates': rates,
  }
  said = io.StringIO()
  with contextlib.redirect_stdout(said):
    exec(code, names)
  expected = re.findall(r'print\(.*\)  # (.*)', code)
  assert len(expected) == 3
  assert said.getvalue() == '\n'.join([*expected, printed])

  # 50 steps up, 850 at .05, 100 down; then 450 at .05 and 50 down, twice.
  first = [*np.arange(50) / 50, *[1.0] * 850, *(1 - np.arange(100) / 100)]
  further = [*[1.0] * 450, *(1 - np.arange(50) / 50)]
  right = 0.05 * np.array([*first, *further, *further])
  np.testing.assert_allclose(rates, right, rtol=2e-5, atol=1e-8)

  # The optimizer's steps go on as well.
  counts = [
    int(names[name].opt_state.inner[0].count)
    for name in ('before', 'after', 'state')
  ]
  assert counts == [900, 1000, 1500]

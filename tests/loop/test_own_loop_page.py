"""The page on a loop of one's own: a program, and what it prints."""

import contextlib
import io
import re

import jax
import numpy as np

from helpers.documents import ROOT, blocks

NUMBER = r'\d+\.\d+'


def test_the_page_is_a_program_that_prints_what_it_shows():
  """Numbers but for rounding, and where jax has other random numbers."""
  page = blocks(ROOT / 'docs' / 'own_loop.md')
  names, printed, shown = {}, io.StringIO(), ''
  for block in page:
    if block.language == 'python':
      with contextlib.redirect_stdout(printed):
        exec(compile(block.text, 'own_loop.md', 'exec'), names)
    else:
      shown += block.text
  found = printed.getvalue()
  assert re.sub(NUMBER, '#', found) == re.sub(NUMBER, '#', shown)
  if not jax.config.jax_threefry_partitionable:
    return
  values, right = (
    np.array(re.findall(NUMBER, text), float) for text in (found, shown)
  )
  np.testing.assert_allclose(values, right, rtol=0.02, atol=0.002)


def test_the_page_begins_with_code():
  text = (ROOT / 'docs' / 'own_loop.md').read_text()
  before = text.partition('```python')[0]
  assert len(before.split()) < 60

"""Pictures of runs show the settings in the code: see `make figures-readme`."""

import json
import re

import numpy as np
import pytest

from helpers.documents import ROOT
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.engine.records import as_plain
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS

FIGURES = ROOT / 'figures'


@pytest.mark.parametrize(
  ('name', 'settings'),
  [('digits', SCHEDULE_PARAMS), ('digits_thesis', THESIS)],
)
def test_a_picture_shows_a_run_of_the_setting(name, settings):
  run = json.loads((FIGURES / f'{name}.json').read_text())
  assert run['schedule_params'] == as_plain(settings)
  assert (FIGURES / f'{name}.png').is_file()


def test_the_lines_of_the_page_are_those_of_the_run():
  lines = (FIGURES / 'digits.txt').read_text().splitlines()
  page = (ROOT / 'docs/reading_a_run.md').read_text()
  quoted = re.findall(r'(?m)^\| (step \d+: .+?) \|', page)
  assert len(quoted) >= 5
  for quote in quoted:
    assert any(line.startswith(quote) for line in lines), quote
  resets = [line for line in lines if ' of the model fresh ' in line]
  assert [line for line in quoted if ' of the model fresh ' in line] == resets


def test_the_peaks_of_the_run_are_those_of_the_code():
  run = json.loads((FIGURES / 'digits.json').read_text())
  chain = jax_lr_schedule(
    run['step_hint'],
    SCHEDULE_PARAMS.cycles,
    SCHEDULE_PARAMS.budget_factor,
    peak_factor=SCHEDULE_PARAMS.peak_factor,
  )
  expected = [planned.cycle.peak for planned in chain.cycles]
  text = (FIGURES / 'digits.txt').read_text()
  peaks = re.findall(r'Cycle \d+ starts, .* a peak of ([\d.e-]+?)\.\n', text)
  found = np.asarray(peaks[: len(expected)], float)
  shares = np.asarray(expected) / expected[0]
  np.testing.assert_allclose(found / found[0], shares, rtol=1e-4)

"""A plan's bound beside one cosine and one WSD: the page's table and numbers."""

import contextlib
import io
import pathlib
import re

import numpy as np
import pytest

import reset_cycles
from reset_cycles.cli import main as cli
from reset_cycles.schedule_params import THESIS
from reset_cycles.views.plan_bound import (
  bound_lines,
  compared_rates,
  drawn_with_bound,
)
from reset_cycles.views.planned_runs import PlannedRun, planned_rates

PAGE = pathlib.Path(reset_cycles.__file__).parent / 'docs' / 'bound.md'


def test_the_table_of_the_page():
  plan = PlannedRun(2000, THESIS)
  rates = compared_rates('thesis', plan)
  assert [eta.size for eta in rates.values()] == [4000] * 3
  np.testing.assert_array_equal(rates['thesis'], planned_rates(plan))
  # One cosine has the peak and the warm-up of the plan, and no cycle more.
  cosine = rates['one cosine']
  assert cosine.max() == np.float32(THESIS.cycles[0].peak)
  assert np.all(np.diff(cosine[80:]) <= 0)
  said = [re.split(' {2,}', line.strip()) for line in bound_lines(rates)]
  table = re.findall(
    r'^\| .* \| \.(\d+) \| ([\d.]+) \|$', PAGE.read_text(), re.M
  )
  assert [(float(f'.{b}'), ratio) for b, ratio in table] == [
    (float(row[1]), row[2]) for row in said[1:4]
  ]


def test_the_numbers_of_the_pages_code():
  code = ''.join(re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.S))
  printed = io.StringIO()
  with contextlib.redirect_stdout(printed):
    exec(code, {})
  said = re.findall(r'print\(.*?\)  # (.*)', code)
  expected = [float(x) for line in said for x in line.split(', ')]
  found = [float(x) for x in printed.getvalue().split()]
  assert len(found) == 4
  assert found == pytest.approx(expected, rel=5e-5)


def test_a_picture_is_drawn():
  pytest.importorskip('matplotlib')
  picture = drawn_with_bound(compared_rates('thesis', PlannedRun(30, THESIS)))
  assert picture.startswith(b'\x89PNG') and len(picture) > 10_000


def test_the_command_prints_and_draws_the_bound(tmp_path, capsys):
  pytest.importorskip('matplotlib')
  out = tmp_path / 'plan.png'
  words = ['schedule', '--settings=thesis', '--step_hint=2000', f'--out={out}']
  assert cli.main([*words, '--bound']) == 0
  said = capsys.readouterr().out
  assert '  one cosine    0.03269           1.000           0.01529\n' in said
  with_bound = out.read_bytes()
  assert cli.main([*words, '--overwrite']) == 0
  assert 'convex bound' not in capsys.readouterr().out
  assert out.read_bytes() != with_bound

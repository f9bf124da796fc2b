"""The figures on the page of MUON are those of the runs beside it."""

import pathlib
import re

import pytest

from reset_cycles import benchmarks
from reset_cycles.studies.board import ablation, logs
from reset_cycles.studies.board.workload_sets import HALVES

FOLDER = pathlib.Path(benchmarks.__file__).parent / 'muon'
ROWS = re.findall(
  r'(?m)^\| (\w[\w.]*)(?:, on four)? \| (.*) \|$',
  (FOLDER / 'MUON.md').read_text(encoding='utf-8'),
)


@pytest.mark.parametrize('half', HALVES)
def test_every_figure_of_a_table_is_that_of_the_runs(half):
  runs = [r for r in logs.read_runs(FOLDER) if r.workload in HALVES[half]]
  names = {run.submission for run in runs} - {ablation.BARE}
  for name in names:
    for condition in ('tuned', 'near'):
      pairs = ablation.pairs_of(runs, name, condition)
      said = [re.split(r' ?\| ?', cells) for own, cells in ROWS if own == name]
      found = ablation.cell(pairs, condition)
      is_shown = not found or any(found in cells for cells in said)
      # Not on the page: what the text calls equal, and SOFT_RESET for choosing.
      is_left_out = name in (
        *('SOFT_RESET', 'share_0.05_r_1', 'quarter_decay_share_0.05'),
      )
      assert is_shown or (half == 'choosing' and is_left_out), (name, found)

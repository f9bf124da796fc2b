"""The document about costs, from figures that are written out here."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'costs.py'


def block(ratio, cpu, load):
  """One of the blocks that runner_cost.py saves."""
  return {
    **{'ratio': ratio, 'ratio of processor time': cpu},
    **{'load average': load, 'ours, ms': 50.0, 'baseline, ms': 40.0},
  }


def test_the_steps_in_the_benchmarks_loop(tmp_path):
  """The median of blocks, not their mean, and their whole range."""
  saved = {
    'versions': {'package': 'algoperf', 'jax': '0.7.0'},
    'settings': {'pairs': 40, 'workload': 'ogbg', 'B': 32, 'cores': 2},
    'figures': {
      'ratio, median of blocks': 1.0,
      'blocks': [
        block(1.5, 1.02, 3.0),
        block(1.0, 1.01, 9.2),
        block(0.9, 0.99, 2.5),
      ],
    },
  }
  results, document = tmp_path / 'results', tmp_path / 'COSTS.md'
  results.mkdir()
  (results / 'runner_cost_cpu.json').write_text(json.dumps(saved))
  flags = [f'--results={results}', f'--document={document}']
  subprocess.run([sys.executable, SCRIPT, *flags], check=True)
  text = document.read_text()
  assert '`ogbg`, 32 graphs, 3 blocks of 40 pairs' in text
  assert 'was 2.5 to 9.2 on 2 cores' in text
  assert '| ratio | 1.0000 | 0.9000 to 1.5000 |' in text
  assert '| ratio of processor time | 1.0100 | 0.9900 to 1.0200 |' in text
  assert 'Measured with package algoperf, jax 0.7.0.' in text
  # What was not measured is left out, and that there was no GPU is said.
  assert '`digits`' not in text
  assert '`gpu.py` has not been run' in text

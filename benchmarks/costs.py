"""Writes COSTS.md from the figures in results/.

  .venv/bin/python benchmarks/costs.py [--results=DIR] [--document=FILE]

There is a section for each file that exists, with a table, the goals and the
script that measured it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from collections.abc import Mapping
from typing import Any

from model_sizes import as_table
from reset_cycles.mini_algoperf import files

HERE = pathlib.Path(__file__).parent
STEP_COST, OVERHEAD = 'step_cost_cpu.json', 'overhead_cpu.json'
RUNNER_COST, GPU = 'runner_cost_cpu.json', 'gpu.json'
_HEAD = """# What the submission costs

Written by `benchmarks/costs.py` from the figures in `results/`; `make bench`
measures them anew. A ratio is that of two steps taken in turns in one process,
each waited for; a block's is the median of its pairs.
"""


def step_section(saved: Mapping[str, Any]) -> str:
  """The section on steps compared with bare AdamW; `saved` is step_cost's."""
  rows = []
  for name, f in saved['figures'].items():
    low, high = f['ratio, least and most of blocks']
    ours, plain = f['programs']['ours'], f['programs']['plain']
    cpu = sorted(b['ratio of processor time'] for b in f['blocks'])
    rows.append(
      [
        name,
        f'{f["ratio, median of blocks"]:.4f} ({low:.4f} to {high:.4f})',
        f'{cpu[len(cpu) // 2]:.4f}',
        f'{ours["operations"] / plain["operations"]:.6f}',
        f'{ours["bytes"] / plain["bytes"]:.6f}',
        f'{ours["instructions"]:.0f} : {plain["instructions"]:.0f}',
      ]
    )
  head = ['case', 'ratio of step times', 'of processor time', 'of operations']
  table = as_table([*head, 'of bytes', 'instructions'], rows)
  settings = saved['settings']
  return (
    f'## A step against bare AdamW on `{settings["workload"]}`\n\n'
    f'{settings["blocks"]} blocks of {settings["pairs"]} pairs, by '
    '`step_cost.py`. Goal: a ratio of at most 1.005. Operations, bytes and '
    'instructions are those of the compiled programs, which no other work on '
    'the machine changes.\n\n'
    f'{table}\n\n{_host_table(saved)}\n\n{_versions(saved)}\n'
  )


def _host_table(saved: Mapping[str, Any]) -> str:
  names = [
    'update_params without its step, µs',
    'a call with these arguments, µs',
    'compilations after step 1',
    'reset, ms',
    'reset, in steps',
    'beside the old leaf at most, bytes',
    'largest leaf, bytes',
  ]
  cases = saved['figures']
  rows = [[n, *(f'{cases[c][n]:.4g}' for c in cases)] for n in names]
  return as_table(['', *cases], rows)


def overhead_section(saved: Mapping[str, Any]) -> str:
  """The section on single quantities; `saved` is overhead's."""
  rows = []
  for name, row in saved['figures'].items():
    low, high = row['quartiles']
    unit = '' if row['unit'] == '1' else f' {row["unit"]}'
    rows.append(
      [name, f'{row["median"]:.3f}{unit}', f'{low:.3f} to {high:.3f}']
    )
  return (
    '## Single quantities on `digits`\n\nBy `overhead.py`. Goals: the check of '
    'an ordinary step at most 0.5 µs, an evaluation without a logger at most '
    '100 µs.\n\n'
    f'{as_table(["quantity", "median", "quartiles"], rows)}\n\n'
    f'{_versions(saved)}\n'
  )


def runner_section(saved: Mapping[str, Any]) -> str:
  """The section on steps in the benchmark's loop; `saved` is runner_cost's."""
  blocks, settings = saved['figures']['blocks'], saved['settings']
  rows = []
  for name in ('ratio', 'ratio of processor time'):
    found = sorted(block[name] for block in blocks)
    spread = f'{found[0]:.4f} to {found[-1]:.4f}'
    rows.append([name, f'{statistics.median(found):.4f}', spread])
  table = as_table(['', 'median of blocks', 'least and most'], rows)
  loads = sorted(block['load average'] for block in blocks)
  return (
    "## In the benchmark's own loop\n\nBy `runner_cost.py`: ours against the "
    f"benchmark's self-tuning baseline on `{settings['workload']}`, "
    f'{settings["B"]} graphs, {len(blocks)} blocks of {settings["pairs"]} '
    'pairs. The models are the same, the optimizers are not. The load of the '
    f'machine was {loads[0]:.1f} to {loads[-1]:.1f} on {settings["cores"]} '
    'cores: where other work is among it, processor time (of all threads) says '
    'more.\n\n'
    f'{table}\n\n{_versions(saved)}\n'
  )


def gpu_section(saved: Mapping[str, Any] | None) -> str:
  """The section on a GPU; says so if `saved` is None."""
  if saved is None:
    return (
      '## On a GPU\n\n`gpu.py` has not been run on one; it was tried out with '
      'tiny models on a CPU.\n'
    )
  rows = [
    [name, f'{saved[name]["ratio of step times"]["median"]:.4f}']
    for name in ('graphs', 'sentences')
  ]
  return (
    f'## On a GPU\n\nBy `gpu.py`.\n\n{as_table(["model", "ratio"], rows)}\n\n'
    f'{_versions(saved)}\n'
  )


def _versions(saved: Mapping[str, Any]) -> str:
  listed = ', '.join(f'{k} {v}' for k, v in saved['versions'].items())
  return f'Measured with {listed}.'


def document(results: pathlib.Path) -> str:
  """The text of COSTS.md."""
  sections = {
    STEP_COST: step_section,
    OVERHEAD: overhead_section,
    RUNNER_COST: runner_section,
  }
  there = [n for n in sections if (results / n).exists()]
  parts = [sections[n](files.read_json(results / n)) for n in there]
  gpu = results / GPU
  parts.append(
    gpu_section(json.loads(gpu.read_text()) if gpu.exists() else None)
  )
  return '\n'.join([_HEAD, *parts])


def main() -> None:
  """Writes the document."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--results', type=pathlib.Path, default=HERE / 'results')
  parser.add_argument(
    '--document', type=pathlib.Path, default=HERE / 'COSTS.md'
  )
  args = parser.parse_args()
  files.write_whole(args.document, document(args.results))


if __name__ == '__main__':
  main()

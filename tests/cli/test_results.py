"""RESULTS.md: the text, and the command that writes it."""

from __future__ import annotations

import math
import pathlib

import pytest

from helpers.curves_of_runs import run_table
from helpers.registry_logs import write_log
from reset_cycles.cli import main as cli
from reset_cycles.studies import workers
from reset_cycles.studies.thesis import registry, results
from reset_cycles.studies.thesis.claims import CLAIMS, Claim, Finding, Measure
from reset_cycles.studies.thesis.logs import Job


@pytest.mark.parametrize(
  ('values', 'expected'),
  [
    ([1.0, 2.0, 3.0, 4.0, 5.0], '3 (2 to 4)'),
    ([1.0, 2.0], '1.5 (1.25 to 1.75)'),
    ([2.0, 2.0], '2'),
    ([1.0, 2.0, math.inf], '2 (1 to never)'),
    ([math.inf, math.inf], 'never'),
    ([], 'none'),
  ],
)
def test_values_in_words(values, expected):
  assert results.describe_values(values) == expected


def test_the_whole_text():
  claim = Claim('It holds.', 'Does it?', ('peaks_soft',), None)
  other = Claim('It does not.', 'Does it not?', ('peaks_full',), None)
  findings = {
    'a': Finding([Measure('x', [1.0, 3.0])], [1] * 6 + [0]),
    'b': Finding([Measure('x', []), Measure('y', [4.0])], [0] * 7),
  }
  origin = results.Origin('a command', 12, (1, 2), 3.0, ('jax 1',), ('cpu',))
  text = results.results_text(origin, {claim: findings, other: findings})
  head, _, rest = text.partition('| claim |')
  assert '\n    a command\n' in head
  assert '12 runs, seeds 1 to 2' in head.replace('\n', ' ')
  assert '| claim |' + rest == (
    '| claim | a | b |\n'
    '|---|---|---|\n'
    '| 1. It holds. | holds (6 : 0) | undecided: no seed could be asked |\n'
    '| 2. It does not. | holds (6 : 0) | undecided: no seed could be asked |\n'
    '\n'
    '## 1. It holds.\n'
    '\n'
    'Does it?\n'
    '\n'
    'Runs: `peaks_soft`.\n'
    '\n'
    '| | a | b |\n'
    '|---|---|---|\n'
    '| x | 2 (1.5 to 2.5) | none |\n'
    '| y | none | 4 |\n'
    '| seeds for : against : neither | 6 : 0 : 1 | 0 : 0 : 7 |\n'
    '| verdict | **holds** | **undecided** |\n'
    '\n'
    '## 2. It does not.\n'
    '\n'
    'Does it not?\n'
    '\n'
    'Runs: `peaks_full`.\n'
    '\n'
    '| | a | b |\n'
    '|---|---|---|\n'
    '| x | 2 (1.5 to 2.5) | none |\n'
    '| y | none | 4 |\n'
    '| seeds for : against : neither | 6 : 0 : 1 | 0 : 0 : 7 |\n'
    '| verdict | **holds** | **undecided** |\n'
  )


def test_the_command_trains_measures_and_packs(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  trained = []

  def train_all(missing, root, num_workers, train_fn, title):
    trained.extend(missing)
    for job in missing:
      write_log(root / f'{job.workload}_{job.run}_{job.seed}', job)

  table = run_table([0.0, 0.8], [0.7, 0.8], [0.8, 0.9])
  monkeypatch.setattr(workers, 'train_all', train_all)
  monkeypatch.setattr(registry, 'LOGS', tmp_path / 'shipped')
  monkeypatch.setattr(results, 'read_run', lambda log_dir: table)
  monkeypatch.setattr(results, 'origin_of', lambda *unused: ORIGIN)
  logs = pathlib.Path('logs')
  write_log(logs / 'x', Job('molecules', 'peaks_soft', 4))
  write_log(logs / 'y', Job('molecules', 'decays_soft', 1))  # of no claim
  assert cli.main(['results', '--logs=logs', '--pack=packed']) == 0
  runs = {run for claim in CLAIMS for run in claim.runs}
  assert len(trained) == len(set(trained)) == 10 * len(runs) * 3 - 1
  assert {job.seed for job in trained} == set(range(1, 11))
  assert capsys.readouterr().out == 'RESULTS.md\n'
  text = pathlib.Path('RESULTS.md').read_text()
  assert all(f'. {claim.sentence}\n' in text for claim in CLAIMS)
  packed = {path.stem for path in pathlib.Path('packed').iterdir()}
  expected = {
    f'{workload}_{run}' for workload in results.WORKLOADS for run in runs
  }
  assert packed == {*expected, 'molecules_decays_soft'}


ORIGIN = results.Origin('a command', 1, (1,), 1.0, ('jax 1',), ('cpu',))


def test_what_stands_behind_the_numbers(tmp_path):
  job = Job('molecules', 'peaks_soft', 1)
  logs = [write_log(tmp_path / name, job) for name in ('a', 'b')]
  for log in logs:
    path = log.log_dir / 'eval_measurements.csv'
    path.write_text('global_step,total_duration\n1,20\n60,1800\n')
    meta = log.log_dir / 'meta_data_0.json'
    meta.write_text(
      '{"jax_version": "1", "flax_version": "2", "optax_version": "3", '
      '"device_kind": "cpu"}'
    )
  assert results.origin_of('command', range(1, 4), logs) == results.Origin(
    'command',
    2,
    (1, 2, 3),
    1.0,
    ('flax 2', 'jax 1', 'optax 3'),
    ('cpu',),
  )


@pytest.mark.parametrize(
  ('flag', 'message'),
  [
    ('--seeds=9', 'seeds'),
    ('--out=.', '--out=. is a folder: give a file'),
    (
      '--out=nowhere/RESULTS.md',
      '--out=nowhere/RESULTS.md: there is no folder',
    ),
    ('--logs=nowhere', '--logs=nowhere: there is no such folder'),
  ],
)
def test_bad_input(flag, message, capsys):
  assert cli.main(['results', flag]) == 2
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1


def test_all_runs_of_a_seed_are_wanted_before_the_next_seed():
  jobs = results.wanted_jobs([1, 2])
  assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
  assert jobs[0] == Job('digits', 'peaks_full', 1)

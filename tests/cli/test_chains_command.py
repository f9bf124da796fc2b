"""`soft-reset replay --chain` and `--search_chains`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reset_cycles.cli import main as cli

WORKLOADS = (
  'workload,metric,direction,validation_target,step_hint_v05,max_runtime_v05\n'
  'ogbg,accuracy,rises,1,100,100\nwmt,accuracy,rises,1,100,100\n'
)
RUNS = [
  # submission, trial, workload, metric at 10, 20 and 40 seconds
  ('a', 1, 'ogbg', [0.6, 0.8, 1.0]),
  ('a', 1, 'wmt', [0.1, 0.1, 0.1]),
  ('a', 2, 'ogbg', [0.1, 0.1, 0.1]),
  ('a', 2, 'wmt', [0.6, 1.0, 1.0]),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """Two settings in two studies, and an entry of 40 and 20 seconds."""
  monkeypatch.chdir(tmp_path)
  lines, metrics = [], []
  for study in (0, 1):
    for submission, trial, workload, metric in RUNS:
      lines.append(
        f'v05,external,{submission},jax,study_{study},{workload},trial_{trial},'
      )
      metrics.append(metric)
    for workload, metric in (('ogbg', [0, 0, 1]), ('wmt', [0, 1, 1])):
      lines.append(f'v05,self,entry,jax,study_{study},{workload},trial_1,')
      metrics.append(metric)
  header = 'board,ruleset,submission,framework,study,workload,trial,hparams'
  (tmp_path / 'runs.csv').write_text('\n'.join([header, *lines, '']))
  (tmp_path / 'workloads.csv').write_text(WORKLOADS)
  count = len(lines)
  np.savez(
    tmp_path / 'evaluations.npz',
    first=np.arange(0, 3 * count + 1, 3),
    step=np.tile([10, 20, 40], count),
    seconds=np.tile([10.0, 20.0, 40.0], count),
    loss=np.ones(3 * count),
    metric=np.ravel(metrics),
  )
  return tmp_path


def run(capsys, *words):
  assert cli.main(['replay', '--runs=.', *words]) == 0
  return capsys.readouterr().out


def test_a_chain(folder, capsys):
  out = run(capsys, '--chain=a/1,a/2', '--budget=1.5', '--policy=floor')
  header, row = out.splitlines()[:2]
  assert header.split()[:3] == ['chain', 'policy', 'budget']
  # wmt: left at 20, then 20 more, r = 2: two thirds, 66.5 of 99 by trapezoids.
  assert row.split() == (
    'a/1 a/2 floor 1.5× 0.833 0.836 0.836 2 of 2 - 0.833 (0.833-0.833)'.split()
  )


def test_a_chain_by_workload(folder, capsys):
  out = run(capsys, '--chain=a/2,a/1', '--budget=0.5', '--by=workload')
  rows = [line.split() for line in out.splitlines()[-2:]]
  # The floor leaves a/2 at 20; 60 seconds are more than 50.
  assert rows == [
    ['ogbg', '0.000', 'never', 'never'],
    ['wmt', '1.000', '0.20', '0.20'],
  ]


def test_a_chain_for_programs(folder, capsys):
  words = ['--chain=a/1', '--chain=a/2', '--budget=1.5', '--json']
  first, second = json.loads(run(capsys, *words, '--policy=never'))
  assert first == {
    'chain': ['a/1'],
    'policy': 'never',
    'budget': 1.5,
    'score': 0.5,
    'published': 0.5,
    'held_out': 0.5,
    'targets': 1,
    'variants': None,
    'studies': [0.5, 0.5],
    'workloads': {
      'ogbg': {'share': 1.0, 'seconds': [40.0, 40.0]},
      'wmt': {'share': 0.0, 'seconds': [None, None]},
    },
  }
  assert second['chain'] == ['a/2']


def test_a_race(folder, capsys):
  words = ['--chain=a/2,a/1', '--race=0.1', '--budget=1.5', '--json']
  [found] = json.loads(run(capsys, *words))
  assert found['chain'] == ['a/2~a/1']
  # Ten seconds each, then the better one from there on.
  seconds = [found['workloads'][w]['seconds'][0] for w in ('ogbg', 'wmt')]
  assert seconds == [50.0, 30.0]


def test_a_search(folder, capsys):
  words = ['--search_chains', '--settings=a/1,a/2', '--length=2']
  out = run(capsys, *words, '--budget=1.5', '--by=workload')
  lines = [line.split() for line in out.splitlines()]
  assert lines[1] == '1 1.5× a/1 0.500 1 of 2 0.000 0 of 2'.split()
  # Without a workload, the setting that reaches the other one is enough.
  assert lines[2] == '2 1.5× a/2 a/1 0.917 2 of 2 0.000 0 of 2'.split()
  assert lines[-2:] == [['ogbg', '0.000', 'a/2'], ['wmt', '0.000', 'a/1']]


def test_a_search_for_programs(folder, capsys):
  words = ['--search_chains', '--settings=a/1,a/2', '--length=1', '--json']
  [row] = json.loads(run(capsys, *words, '--budget=3', '--bootstrap=4'))
  assert row['chain'] == ['a/1'] and row['in_sample'] == 0.5
  assert row['policy']['name'] == 'floor'
  assert row['folds'][0] == {
    'workload': 'ogbg',
    'chain': ['a/2'],
    'policy': row['policy'],
    'share': 0.0,
    'reached': False,
  }
  assert row['luck']['in_sample'] == [0.5, 0.5, 0.5]


def test_several_policies_are_chosen_from(folder, capsys):
  words = ['--search_chains', '--settings=a/2,a/1', '--length=2', '--budget=3']
  out = run(capsys, *words, '--policy=never', '--policy=floor')
  header, _, row = out.splitlines()
  assert 'policy' in header.split()
  # With `never` a/2 costs 40 on ogbg, r = 2, and 20 with the floor.
  assert row.split()[:6] == ['2', '3×', 'a/2', 'a/1', 'floor', '0.917']


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (
      ['--chain=a'],
      "--chain: 'a' is not a setting; it must be submission/trial",
    ),
    (['--chain=b/1'], 'there are no runs of b/1'),
    (['--chain=a/1', '--race=0.1'], 'a race needs two different settings'),
    (['--chain=a/1,a/2', '--race=2'], '2 must be at most 1'),
    (['--chain=a/1', '--search_chains'], '--chain or --search_chains, not'),
    (['--chain=a/1', '--out=x.png'], 'allow only --by=workload'),
    (['--chain=a/1', '--by=submission'], 'allow only --by=workload'),
    (['--chain=a/1', '--costs'], 'and none of --out, --costs'),
    (
      ['--chain=a/1', '--policy=race'],
      '--race=SHARE makes the first two settings race',
    ),
    (['--search_chains', '--settings=al'], 'Did you mean all?'),
    (['--search_chains', '--length=0'], '0 must be a whole number of at least'),
    (['--length=2'], '--length needs --search_chains.'),
    (['--with_variants'], '--with_variants needs --search_chains.'),
    (['--race=0.1'], '--race needs --chain or --search_chains.'),
  ],
)
def test_bad_input(folder, capsys, flags, message):
  assert cli.main(['replay', '--runs=.', *flags]) == cli.BAD_INPUT
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1

"""Standings, the page and the archives, from runs whose times are known."""

import math
import pathlib
import re
import zipfile

import numpy as np
import pytest

from helpers.curves_of_runs import board_run
from helpers.log_files import write_trial
from reset_cycles.cli import main as cli
from reset_cycles.research import scores
from reset_cycles.research.board import runs as logs
from reset_cycles.research.board import scoreboard
from reset_cycles.views.paths import write_archive
from reset_cycles.views.run_files import MetricTarget

WORKLOADS = ('digits', 'text')
# a is twice as fast as b on digits; on text only b arrives.
RUNS = [
  *(board_run('a', s, 10 + s) for s in (1, 2, 3)),
  *(board_run('b', s, 20 + 2 * s) for s in (1, 2, 3)),
  *(board_run('a', s, math.inf, workload='text') for s in (1, 2, 3)),
  *(board_run('b', s, 15, workload='text') for s in (1, 2, 3)),
]


def test_standings_by_hand():
  first, second = scoreboard.standings(RUNS)
  # b: ratios 2 and 1; a: 1 and never.
  assert (first.submission, second.submission) == ('b', 'a')
  assert first.score == scores.score(np.array([2.0, 1.0]))
  assert second.score == scores.score(np.array([1.0, np.inf]))
  assert (first.reached, second.reached) == (1.0, 0.5)
  # b's six shares: 22, 24 and 26 of 30 s, and three times 15.
  assert first.median_share == pytest.approx((15 + 22) / 2 / 30)
  assert second.median_share == math.inf


def test_all_submissions_have_the_same_draws_of_seeds():
  """Seed 3 is two of three in 7 of 27 draws: a never arrives, b is first."""
  a, b = (10, 10, math.inf), (10, 10, 20)
  runs = [board_run('a', seed, at) for seed, at in enumerate(a)]
  runs += [board_run('b', seed, at) for seed, at in enumerate(b)]
  first, second = scoreboard.standings(runs)
  # Of equal scores, the one that reaches more targets comes first.
  assert first[:5] == ('b', 1.0, 1.0, 1.0, 1.0)
  assert second[:5] == ('a', 1.0, 0.0, 1.0, 2 / 3)


def test_one_seed_has_no_spread():
  runs = [run for run in RUNS if run.seed == 1]
  for standing in scoreboard.standings(runs, draws=3):
    assert math.isnan(standing.low) and math.isnan(standing.high)
  said = scoreboard.page(runs)
  assert re.search(r'^By score, b is first with 0.83.* \(too few', said, re.M)


def test_a_study_under_way_is_compared_on_what_all_have_done():
  more = [
    board_run('a', 4, 12),
    board_run('a', 1, 12, condition='hot'),
    board_run('b', 2, 12, condition='hot'),
  ]
  kept = logs.comparable([*RUNS, *more])
  key = [(r.condition, r.workload, r.submission, r.seed) for r in kept]
  assert sorted(key) == sorted(
    (r.condition, r.workload, r.submission, r.seed) for r in RUNS
  )
  with pytest.raises(ValueError, match='--logs: no workload and condition has'):
    scoreboard.page([board_run('a', 1, 12), board_run('b', 2, 12)])


def test_archives_hold_the_runs_and_are_the_same_every_time(tmp_path):
  """With every digit: an error rate of 35 in 768 has reached 35 in 768."""
  exact = RUNS[0]._replace(
    seed=4,
    target=MetricTarget('error_rate', 35 / 768, False),
    budget_sec=1e8 / 3,
    steps=np.array([1.0, 1_234_567.0]),
    seconds=np.array([0.1, 12_345_678.9]),
    values=np.array([0.5, 35 / 768]),
  )
  [path] = logs.pack([*RUNS, exact], tmp_path / 'one')
  [again] = logs.pack([exact, *RUNS[::-1]], tmp_path / 'two')
  assert path.name == 'tuned.zip'
  assert path.read_bytes() == again.read_bytes()
  found = {run[:4]: run for run in logs.read_runs(tmp_path / 'one')}
  assert len(found) == len(RUNS) + 1
  for run in (*RUNS, exact):
    assert found[run[:4]][:7] == run[:7]
    for got, want in zip(found[run[:4]][7:], run[7:]):
      np.testing.assert_array_equal(got, want)


def test_a_run_in_two_folders_counts_once(tmp_path):
  """As when archives are extended by a study that they are made of."""
  older = [
    run._replace(target=run.target._replace(value=0.5)) for run in RUNS[:5]
  ]
  logs.pack(older, tmp_path / 'archives')
  logs.pack(RUNS[3:], tmp_path / 'study')
  found = logs.read_all([tmp_path / 'archives', tmp_path / 'study'])
  assert sorted((run[:4], run.target) for run in found) == sorted(
    (run[:4], run.target) for run in [*older[:3], *RUNS[3:]]
  )


def write_run(root, condition, submission, times):
  """A run in the benchmark's layout; times: (seconds, error rate)."""
  return write_trial(
    root / condition / submission / 'study_7/digits_jax/trial_1',
    [(s, s, v, 1.0) for s, v in times],
    **{'metric': 'error_rate', 'target': 0.02, 'metric_rises': False},
    max_allowed_runtime_sec=20,
  )


def test_a_studys_folder_is_read(tmp_path):
  write_run(tmp_path, 'tuned', 'a', [(5, 0.5), (10, 0.02)])
  folder = write_run(tmp_path, 'tuned_full', 'b', [(5, 0.5)])
  (folder / 'failure.txt').touch()
  (folder / 'eval_measurements.csv').unlink()  # broke before the first one
  a, b = logs.read_runs(tmp_path)
  found = (a.seed, a.workload, a.budget_sec, a.failed)
  assert found == (7, 'digits', 30, False)
  assert a.share_to_target == pytest.approx(1 / 3)
  assert (b.budget_sec, b.failed, b.share_to_target) == (30, True, math.inf)
  (folder / 'failure.txt').unlink()
  for text in ('', 'global_step\n', 'global_step\n5\n'):
    (folder / 'eval_measurements.csv').write_text(text)
    with pytest.raises(ValueError, match='eval_measurements.csv has no evalu'):
      logs.read_runs(tmp_path)


def test_a_damaged_archive_is_none(tmp_path):
  [path] = logs.pack(RUNS, tmp_path)
  with zipfile.ZipFile(path) as packed:
    whole = {name: packed.read(name) for name in packed.namelist()}
  for name, old, new in (
    ('runs.csv', b'a,digits,1', b'a,digits,9'),
    ('runs.csv', b',0\n', b'\n'),
    ('evaluations.csv', b',0.5\n', b'\n'),
  ):
    write_archive(path, {**whole, name: whole[name].replace(old, new, 1)})
    with pytest.raises(ValueError, match='tuned.zip is not the archive of a'):
      logs.read_runs(tmp_path)


def test_hot_cold_and_failed_are_in_no_score():
  """What a rule undoes by construction: a reaches all of it, b none."""
  more = [
    board_run(name, s, at, condition=condition)
    for name, at in (('a', 10), ('b', math.inf))
    for s in (1, 2, 3)
    for condition in ('hot', 'cold', 'failed')
  ]
  said = scoreboard.page([*RUNS, *more])
  assert said.split('## ')[0] == scoreboard.page(RUNS).split('## ')[0]
  by_condition = said.split('## ')[1]
  assert re.search(r'(?m)^\| a \| 0.5.*\] 50% \| 100% \|', by_condition)
  assert 'No score is given under hot, cold, failed:' in by_condition


@pytest.mark.parametrize(
  ('folder', 'name'), [('', 'logs/READING'), ('ablation', 'SCOREBOARD_READING')]
)
def test_the_page_of_the_project_is_that_of_its_logs(folder, name):
  """`make scoreboard` would change nothing."""
  root = pathlib.Path(logs.__file__).parent / folder
  reading = (root / f'{name}.txt').read_text()
  written = scoreboard.page(logs.read_runs(root / 'logs'), reading)
  # Equal ones may change places where a last digit is another.
  said = (root / 'SCOREBOARD.md').read_text()
  assert sorted(written.splitlines()) == sorted(said.splitlines())


def test_the_command_writes_page_picture_and_archives(tmp_path, capsys):
  for name, second in (('a', 6), ('b', 12)):
    write_run(tmp_path / 'logs', 'tuned', name, [(second, 0.01)])
  page = tmp_path / 'BOARD.md'
  words = [f'--logs={tmp_path}/logs', f'--out={page}', f'--pack={tmp_path}/p']
  assert cli.main(['scoreboard', *words]) == 0
  assert (tmp_path / 'scoreboard.png').stat().st_size > 1000
  said = page.read_text()
  words = ['scoreboard', f'--logs={tmp_path}/p', f'--out={page}']
  assert cli.main(words) == 2
  page.unlink()
  assert cli.main(words) == 2  # the picture is there
  assert cli.main([*words, '--overwrite']) == 0
  assert page.read_text() == said

"""Trials in a race, by hand."""

from __future__ import annotations

import math

import pytest

from recorded import make_run
from reset_cycles.control.policies.tournament import Tournament
from reset_cycles.studies.replay import costs, left_out, races, table
from reset_cycles.studies.replay.cases import Judged
from reset_cycles.studies.replay.policies import read_policy

TIMES = [10, 20, 40, 80]
GOOD = make_run(TIMES, [0.3, 0.6, 0.9, 1.0], trial=1)
SLOW = make_run(TIMES, [0.4, 0.5, 0.6, 0.7], trial=2)
FAILS = make_run(TIMES, [0.1, 0.1, 0.1, 0.1], trial=3)
RACE = '{"name": "race", "probes": 3, "rounds": [0.2], "switching": "never"}'


def seconds(race, *runs):
  trials = [Judged(run, 4) for run in runs]
  return races.seconds_to_target(race, trials)


def test_what_a_race_spends():
  # At f = .2 each has cost 20, and GOOD is in front: 60 more to its target.
  assert seconds(Tournament(3, (0.2,)), SLOW, FAILS, GOOD) == [120.0] * 3
  # Nearest to .1 is the first evaluation, where SLOW is in front: it goes on to
  # its end, and pays the first 10 seconds once.
  assert seconds(Tournament(3, (0.1,)), SLOW, FAILS, GOOD) == [170.0] * 3
  # Two probes. SLOW and FAILS: 100 and 80 until both are over, then GOOD. FAILS
  # and GOOD: 20 + 80. GOOD and SLOW likewise.
  found = seconds(Tournament(2, (0.2,)), SLOW, FAILS, GOOD)
  assert found == [240.0, 100.0, 100.0]


def test_a_probe_stops_where_no_evaluation_to_come_is_nearer():
  # Every 10 seconds: .2 is nearest to .24; with .26 it would be .3.
  run = make_run([10, 20, 30, 40], [0.1, 0.1, 0.1, 1.0])
  other = make_run([10, 20, 30, 40], [0.2] * 4)
  assert seconds(Tournament(2, (0.24,)), run, other)[0] == 20 + 40 + 20
  assert seconds(Tournament(2, (0.26,)), run, other)[0] == 30 + 40 + 10


def test_who_is_left_does_not_go_on():
  trials = [Judged(GOOD, 1), Judged(SLOW, 4), Judged(FAILS, 0)]
  found = races.seconds_to_target(Tournament(3, (0.2,)), trials)
  assert found == [math.inf] * 3


def test_a_target_reached_in_a_race_ends_it():
  quick = make_run([5, 10, 20], [0.5, 1.0, 0.2])
  assert seconds(Tournament(2, (0.2,)), quick, SLOW) == [10.0, 30.0]


RUNS = [GOOD, SLOW, FAILS, FAILS._replace(trial='trial_4')]


def judged(*texts):
  return table.judge(RUNS, [read_policy(text) for text in texts])


def test_figures_of_a_race():
  [shown] = judged(RACE)
  [row] = table.figures(shown, [1.4])
  # Probes GOOD SLOW FAILS: 120. SLOW FAILS FAILS, all to their ends: 240 + 80.
  # FAILS FAILS GOOD: 120. FAILS GOOD SLOW: 120.
  assert (row.reached, row.false_alarms, row.reaching) == (0.75, None, 1)
  assert row.time == pytest.approx((3 * 120 / 140 + 1) / 4)
  assert table.text_lines([row])[1].endswith('–')
  [plain] = table.as_objects([row])
  assert plain['false_alarms'] is None
  assert plain['policy']['switching'] == 'never'


def test_costs():
  [shown] = judged(RACE)
  [row] = costs.costs(shown, [1.4])
  # In a row: GOOD 80; SLOW 80 + 80 + 80 + 80, FAILS 80 + 80 + 80, or 80 + 80.
  assert (row.cases, row.good) == (4, 1)
  assert row.good_race == (1.0, pytest.approx(1.2))
  assert row.good_row == (1.0, pytest.approx(0.8))
  assert row.others_race == (pytest.approx(2 / 3), pytest.approx(3.8 / 3))
  assert row.others_row == (0.0, pytest.approx(1.4))
  # Others gain .4 / 3, a good one loses .4.
  assert row.break_even == (1.0, pytest.approx(0.25))
  short = row._replace(policy='race')
  lines = [line.split()[-8:] for line in costs.text_lines([short])]
  assert lines[1][1:] == '1 1.000 1.200 1.000 0.800 1.000 0.250'.split()
  assert lines[2][-5:] == '3 0.667 1.267 0.000 1.400'.split()
  [plain] = costs.as_objects([row])
  assert plain['break_even_time'] == pytest.approx(0.25)


def test_costs_without_good_cases():
  runs = [FAILS._replace(trial=f'trial_{i}') for i in range(4)]
  [shown] = table.judge(runs, [read_policy(RACE)])
  [row] = costs.costs(shown, [1.0])
  assert row.good == 0
  assert all(math.isnan(share) for share in (*row.good_race, *row.break_even))
  assert costs.as_objects([row])[0]['good_race_reached'] is None
  with pytest.raises(ValueError, match='never is not a race'):
    costs.costs(judged('never')[0], [1.0])


def test_left_out():
  # On a the race is the better one, on b the trials in a row are.
  others = [run._replace(submission='b') for run in RUNS]
  runs = [*others, *(run._replace(submission='c') for run in RUNS)]
  swapped = [GOOD, GOOD, GOOD, GOOD]
  runs += [run._replace(trial=f'trial_{i}') for i, run in enumerate(swapped)]
  shown = table.judge(runs, [read_policy('never'), read_policy(RACE)])
  rows = left_out.judge_left_out(shown, [1.4], 'submission')
  race = shown[1].policy
  # b and c together prefer the race, and so does a with one of them.
  assert [(row.part, row.policy, row.reached) for row in rows] == [
    ('a', race, 1.0),
    ('b', race, 0.75),
    ('c', race, 0.75),
    ('', '', pytest.approx(2.5 / 3)),
  ]
  lines = left_out.text_lines(rows, 'submission')
  assert lines[-1].split() == ['1.4×', 'all', '12', '0.833', '0.881']
  assert left_out.as_objects(rows, 'submission')[-1]['submission'] is None
  with pytest.raises(ValueError, match='give at least two --policy'):
    left_out.judge_left_out(shown[:1], [1.4], 'submission')

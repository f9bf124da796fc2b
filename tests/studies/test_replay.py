"""Where rules leave recorded runs, and the figures of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.early_switching import Verdict
from reset_cycles.studies.real_runs import reading
from reset_cycles.studies.real_runs.reading import RecordedRun, RecordedWorkload
from reset_cycles.studies.replay import cases, rules, tables
from reset_cycles.studies.replay.cases import Judged
from reset_cycles.studies.replay.rules import Rule, TrialRace, read_rule
from reset_cycles.studies.run_files import MetricTarget

NAN = math.nan
# Metric 1.0 is to be reached; 100 steps and 100 seconds make a run.
RISING = RecordedWorkload(
  'up', MetricTarget('accuracy', 1.0, True), 100.0, 100.0
)
FALLING = RecordedWorkload(
  'down', MetricTarget('wer', 1.0, False), 100.0, 100.0
)


def make_run(seconds, metric, loss=None, trial=1, workload=RISING, **changes):
  """A run whose steps and seconds are equal; a loss of 1 if none is given."""
  seconds = np.array(seconds, float)
  run = RecordedRun(
    'v05',
    'external',
    'a',
    'study_0',
    workload,
    f'trial_{trial}',
    np.nan_to_num(seconds),
    seconds,
    np.ones(seconds.size) if loss is None else np.array(loss, float),
    np.array(metric, float),
  )
  return run._replace(**changes)


def left_at(text, run):
  return rules.left_at(read_rule(text), run)


REACHES = make_run([10, 20, 30, 40], [0.2, 0.5, 1.0, 0.9])
FAILS = make_run([10, 20, 30, 40], [0.2, 0.3, 0.3, 0.3])


def test_rules_see_one_evaluation_after_the_other():
  # At f = .2, .7 is missing in FAILS: more than .08 + 2 log2(5) * .1 = .54. In
  # REACHES it is .5, and the last doubling has gained .3.
  assert (left_at('progress', FAILS), left_at('progress', REACHES)) == (1, 4)
  later = '{"name": "progress", "min_share": 0.3}'
  assert (left_at(later, FAILS), left_at(later, REACHES)) == (2, 4)
  rises = make_run([10, 20, 30], [0.9] * 3, [1.0, 1.5, 2.0])
  assert left_at('thesis', rises) == 1


def test_what_a_rule_is_told():
  seen = []

  class Listening:
    initial = 0

    def observe(self, state, evaluation, context):
      seen.append((evaluation, context))
      return state + 1, Verdict('enough' if state else '', {})

  run = make_run([10, 30], [4.0, 2.0], [3.0, 2.5], workload=FALLING)
  run = run._replace(step=run.step * 2)
  assert rules.left_at(Rule('x', Listening()), run) == 1
  target = ('wer', 1.0, False)
  assert seen == [
    ((20, 3.0, 4.0, 10.0), (0.2, target, 4.0)),
    ((60, 2.5, 2.0, 30.0), (0.6, target, 4.0)),
  ]
  assert isinstance(seen[0][0].step, int)


@pytest.mark.parametrize('loss', [NAN, math.inf])
def test_a_loss_that_is_not_finite_ends_a_run_whatever_the_rule(loss):
  run = make_run([10, 20], [0.5, 0.5], [1.0, loss])
  assert left_at('{"name": "progress", "min_share": 0.9}', run) == 1


def test_which_runs_are_comparable():
  good = [make_run(TIMES, 3 * [0], trial=i) for i in range(4)]
  others = [
    make_run([1, 2], 2 * [0]),
    make_run(TIMES, 3 * [0], board='a100'),
    make_run(TIMES, 3 * [0], ruleset='self'),
  ]
  kept = cases.comparable([*others, *good])
  assert [run.trial for run in kept] == [run.trial for run in good]
  with pytest.raises(ValueError, match='there is nothing to replay'):
    cases.comparable([*others, *good[:3]])


DRAWN = [
  make_run([10, 50, 100], [0.2, 0.8, 1.0], trial=1),
  make_run([10, 50, 100], [0.2, 0.97, 0.5], trial=2),
  make_run([10, 50, 100], [math.nan, 0.3, 0.1], trial=3),
  make_run([10, 50, 100], [0.2, 0.6, 0.7], trial=4),
]


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('thesi', 'there is no such rule; .* Did you mean thesis'),
    ('{"name": "race"', 'is not valid JSON'),
    ('{"name": "race", "probes": 1}', 'a whole number of at least 2'),
    ('{"name": "race", "share": 0}', r'a number in \(0, 1\]'),
    ('{"name": "race", "keep": [2]}', 'race.keep: TrialRace has no such field'),
    ('{"name": "race", "rule": "thesi"}', 'Did you mean thesis'),
  ],
)
def test_rules_that_are_none(text, message):
  with pytest.raises(ValueError, match=message):
    read_rule(text)


TIMES = [10, 20, 40, 80]
GOOD = make_run(TIMES, [0.3, 0.6, 0.9, 1.0], trial=1)
SLOW = make_run(TIMES, [0.4, 0.5, 0.6, 0.7], trial=2)
BAD = make_run(TIMES, [0.1, 0.1, 0.1, 0.1], trial=3)


def seconds(race, *runs):
  return cases.seconds_in_race(race, [Judged(run, 4) for run in runs])


def test_the_winner_begins_again_unless_it_was_probed_last():
  # At f = .2 each has cost 20. GOOD wins: 60 more where it is at hand, which is
  # in the first rotation alone, and 80 where it begins again.
  assert seconds(TrialRace(3, 0.2), SLOW, BAD, GOOD) == [120.0, 140.0, 140.0]
  # At f = .1, after 10 seconds each, SLOW wins and goes on to its end, for 80
  # or 70 more; GOOD, the next best, begins again and takes 80.
  assert seconds(TrialRace(3, 0.1), SLOW, BAD, GOOD) == [190.0, 180.0, 190.0]


def test_who_was_not_probed_comes_last():
  # SLOW, BAD: 40, then 80 and 80 again, then GOOD, 80. BAD, GOOD: 40 + 60.
  # GOOD, SLOW: 40 + 80.
  assert seconds(TrialRace(2, 0.2), SLOW, BAD, GOOD) == [280.0, 100.0, 120.0]


def test_a_probe_stops_where_no_evaluation_to_come_is_nearer():
  # Every 10 seconds: .2 is nearest to .24; with .26 it would be .3.
  run = make_run([10, 20, 30, 40], [0.1, 0.1, 0.1, 1.0])
  assert cases.probe(Judged(run, 4), 0.24).seconds == 20
  assert cases.probe(Judged(run, 4), 0.26).seconds == 30


def test_who_is_left_does_not_go_on():
  trials = [Judged(GOOD, 1), Judged(SLOW, 4), Judged(BAD, 0)]
  assert cases.seconds_in_race(TrialRace(3, 0.2), trials) == [math.inf] * 3


def test_a_target_reached_in_a_probe_ends_the_race():
  quick = make_run([5, 10, 20], [0.5, 1.0, 0.2])
  assert seconds(TrialRace(2, 0.2), quick, SLOW) == [10.0, 30.0]


RACE = '{"name": "race", "probes": 3, "share": 0.2, "rule": "never"}'
RUNS = [GOOD, SLOW, BAD, BAD._replace(trial='trial_4')]


def replayed(runs, *texts):
  return [
    cases.replay(cases.comparable(runs), read_rule(text)) for text in texts
  ]


def test_figures_of_a_rule_and_of_a_race():
  never, race = found = tables.figures(replayed(RUNS, 'never', RACE), [1.4])
  # In a row: 80, 320, 240, 160.
  assert never == {
    'rule': 'never', 'budget': 1.4, 'cases': 4, 'reached': 0.25,
    'time': pytest.approx((80 / 140 + 3) / 4), 'false_alarms': 0, 'reaching': 1,
  }  # fmt: skip
  # GOOD SLOW BAD: 60 + 80. SLOW BAD BAD: 60 + 80 + 80 + 60 + 80. BAD BAD GOOD:
  # 60 + 60. BAD GOOD SLOW: 60 + 80.
  assert (race['reached'], race['false_alarms']) == (0.75, None)
  assert race['time'] == pytest.approx((140 + 120 + 140 + 140) / 140 / 4)
  assert [line.split() for line in tables.lines(found)[1:]] == [
    ['never', '1.4', '4', '0.250', '0.893', '0', '1'],
    'race(probes=3, share=0.2, rule=never) 1.4 4 0.750 0.964 – 1'.split(),
  ]


def test_the_figures_of_the_shipped_runs():
  runs = reading.read_runs()
  shown = replayed(runs, *rules.BUILT_IN)
  assert [
    (
      str(o['rule']),
      o['budget'],
      f'{o["reached"]:.4f}',
      f'{o["time"]:.4f}',
      o['false_alarms'],
    )
    for o in tables.figures(shown, tables.BUDGETS)
  ] == [
    ('never', 1.5, '0.5870', '0.6552', 0),
    ('never', 3.0, '0.8047', '0.4690', 0),
    ('thesis', 1.5, '0.5676', '0.6744', 299),
    ('thesis', 3.0, '0.7206', '0.5081', 299),
    ('progress', 1.5, '0.6229', '0.6376', 8),
    ('progress', 3.0, '0.8265', '0.4456', 8),
    ('race', 1.5, '0.7162', '0.7122', None),
    ('race', 3.0, '0.8233', '0.4657', None),
    ('oracle', 1.5, '0.8818', '0.4771', 0),
    ('oracle', 3.0, '0.8818', '0.2977', 0),
  ]

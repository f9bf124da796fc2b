"""Where rules abandon recorded runs, and the figures of it."""

import math

import numpy as np
import pytest

from reset_cycles.early_switching import (
  AnyOf,
  ChainLossRule,
  Progress,
  Verdict,
)
from reset_cycles.research.replay import cases, rules, tables
from reset_cycles.research.replay import recorded as reading
from reset_cycles.research.replay.recorded import RecordedRun, RecordedWorkload
from reset_cycles.research.replay.rules import End, Rule, Sight, read_rule
from reset_cycles.views.run_files import MetricTarget

NAN = math.nan
# Metric 1.0 is to be reached; 100 steps and 100 seconds make a run.
RISING = RecordedWorkload(
  'up', MetricTarget('accuracy', 1.0, True), 100.0, 100.0
)
FALLING = RecordedWorkload(
  'down', MetricTarget('wer', 1.0, False), 100.0, 100.0
)


def test_workloads_ask_for_what_the_thesis_table_says():
  """Where its table 2.1 agrees with the logs: seconds, and two targets."""
  found = reading.read_workloads()
  seconds = {'criteo1tb': 7703, 'fastmri': 8859, 'imagenet_resnet': 63_008}
  seconds |= {'imagenet_vit': 77_520, 'ogbg': 18_477, 'wmt': 48_151}
  assert {name: found[name].max_runtime for name in seconds} == seconds
  precision = MetricTarget('mean_average_precision', 0.28098, True)
  assert found['ogbg'].target == precision
  assert found['wmt'].target == MetricTarget('bleu', 30.8491, True)


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


def end(text, run):
  return rules.abandoned_at(read_rule(text), run).at


REACHES = make_run([10, 20, 30, 40], [0.2, 0.5, 1.0, 0.9])
FAILS = make_run([10, 20, 30, 40], [0.2, 0.3, 0.3, 0.3])


def test_rules_see_one_evaluation_after_the_other():
  # At f = .3, .7 is missing in FAILS: more than .08 + .3 * .7 = .29.
  assert (end('progress', FAILS), end('progress', REACHES)) == (2, 4)
  # At f = .2, .5 is missing in REACHES: more than .08 + .3 * .8 = .32.
  sooner = '{"name": "progress", "min_share": 0.2}'
  assert (end(sooner, FAILS), end(sooner, REACHES)) == (1, 1)
  rises = make_run([10, 20, 30], [0.9] * 3, [1.0, 1.5, 2.0])
  assert end('thesis', rises) == 1


def test_what_a_rule_is_told():
  seen = []

  class Listening:
    initial = 0

    def observe(self, state, evaluation, context):
      seen.append((evaluation, context))
      return state + 1, Verdict('enough' if state else '', {})

  run = make_run([10, 30], [4.0, 2.0], [3.0, 2.5], workload=FALLING)
  run = run._replace(step=run.step * 2)
  assert rules.abandoned_at(Rule('x', Listening()), run) == (1, 'enough')
  first, target = (20, 3.0, 4.0, 10.0), ('wer', 1.0, False)
  assert seen == [
    (first, (0.2, target, first)),
    ((60, 2.5, 2.0, 30.0), (0.6, target, first)),
  ]
  assert isinstance(seen[0][0].step, int)


@pytest.mark.parametrize('loss', [NAN, math.inf])
def test_a_loss_that_is_not_finite_ends_a_run_whatever_the_rule(loss):
  run = make_run([10, 20], [0.5, 0.5], [1.0, loss])
  assert end('{"name": "progress", "min_share": 0.9}', run) == 1


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


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('thesi', 'there is no such rule; .* Did you mean thesis'),
    ('{"name": "thesis"', 'is not valid JSON'),
    ('{"name": "thesis", "k": 0}', 'a whole number of at least 1'),
    ('{"name": "progress", "keep": 2}', 'progress.keep: Progress has no such'),
    ('{"name": "oracle", "k": 1}', 'class is missing'),
  ],
)
def test_rules_that_are_none(text, message):
  with pytest.raises(ValueError, match=message):
    read_rule(text)


def test_a_rule_that_is_joined_from_the_command_line():
  text = '{"name": "either", "rules": [{"k": 0.5}, {"window": 0.25}]}'
  rule = read_rule(text)
  assert rule.ends == AnyOf((ChainLossRule(k=0.5), Progress(window=0.25)))
  said = rules.in_words(rule.given)
  assert said == 'either(rules=[(k=0.5), (window=0.25)])'


def test_which_evaluations_a_thinned_run_has():
  """Of ten: the first one at or after each tenth of the run's 100 steps."""
  run = make_run([0, 4, 9, 10, 11, 29, 30, 35, 39, 100], [0] * 10)
  assert rules.seen_of(run, 10) == [0, 3, 5, 6, 9]
  assert rules.seen_of(run, 1) == [0, 9]
  assert rules.seen_of(run, None) == [*range(10)]


def test_a_rule_is_heard_in_the_first_half_only():
  """A half of the run, 50 of 100 seconds, still counts."""
  rule = read_rule('{"name": "progress", "min_share": 0.45}')
  for seconds, found in (
    ([10, 50, 60], End(1, 'target out of reach')),
    ([10, 51, 60], End(3)),
  ):
    run = make_run(seconds, [0.1] * 3)
    assert rules.abandoned_at(rule, run, Sight(first_half=True)) == found
  # A loss that is not finite ends a run at any time.
  run = make_run([10, 90], [0.1] * 2, [1.0, NAN])
  assert rules.abandoned_at(rule, run, Sight(first_half=True)) == End(1)


def test_who_speaks_first():
  """At 30 of 100 seconds .9 are missing, and .08 + .3 * .7 may come.

  Of 10 evaluations .19 are 1.9: the third one is 2 after the minimum.
  """
  rises = [2.0, 3.0, 4.0, 5.0]
  runs = [
    make_run([10, 20, 30, 40], [0.1] * 4, rises, trial=1),
    make_run([10, 20, 30, 40], [0.1] * 4, trial=2),
    make_run([10, 20, 30, 40], [0.9] * 4, rises, trial=3),
    make_run([10, 20, 30, 40], [0.9] * 4, rises[::-1], trial=4),
  ]
  text = '{"name": "either", "rules": [{"k": 0.19}, {}]}'
  first, _ = tables.figures(replayed(runs, text), [1.5, 3.0])
  assert first['spoke'] == {'ChainLossRule': 1, 'ChainLossRule and Progress': 2}
  alone, _ = tables.figures(replayed(runs, 'progress'), [1.5, 3.0])
  assert alone['spoke'] == {'target out of reach': 2}
  words = tables.lines([first])[1]
  assert words.endswith('ChainLossRule 1, ChainLossRule and Progress 2')


TIMES = [10, 20, 40, 80]
GOOD = make_run(TIMES, [0.3, 0.6, 0.9, 1.0], trial=1)
SLOW = make_run(TIMES, [0.4, 0.5, 0.6, 0.7], trial=2)
BAD = make_run(TIMES, [0.1, 0.1, 0.1, 0.1], trial=3)
RUNS = [GOOD, SLOW, BAD, BAD._replace(trial='trial_4')]


def replayed(runs, *texts):
  return [
    cases.replay(cases.comparable(runs), read_rule(text)) for text in texts
  ]


def test_the_evaluation_that_reaches_the_target_counts_if_it_is_abandoned():
  judged = cases.Judged(REACHES, End(2))
  assert (judged.reaches, judged.is_false_alarm) == (True, False)


def test_trials_are_in_the_order_of_their_numbers():
  judged = [
    cases.Judged(make_run([1], [0], trial=i), End(0)) for i in (10, 2, 1, 9)
  ]
  [trials] = cases.trials_of_groups(judged)
  assert [one.run.trial[6:] for one in trials] == ['1', '2', '9', '10']


def test_figures_of_a_rule():
  (never,) = found = tables.figures(replayed(RUNS, 'never'), [1.4])
  # In a row: 80, 320, 240, 160.
  assert never == {
    'rule': 'never', 'budget': 1.4, 'cases': 4, 'reached': 0.25,
    'time': pytest.approx((80 / 140 + 3) / 4), 'false_alarms': 0, 'reaching': 1,
    'spoke': {},
  }  # fmt: skip
  words = tables.lines(found)[1].split()
  assert words == ['never', '1.4', '4', '0.250', '0.893', '0', '1']


def test_the_figures_of_the_shipped_runs():
  runs = reading.read_runs()
  in_force = '{"name": "progress", "window": 0.06}'  # of MUON
  names = ('never', 'thesis', 'progress', 'oracle')
  shown = replayed(runs, *names, in_force)
  assert [
    (
      rules.in_words(o['rule']),
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
    ('progress', 1.5, '0.6209', '0.6407', 1),
    ('progress', 3.0, '0.8225', '0.4485', 1),
    ('oracle', 1.5, '0.8818', '0.4771', 0),
    ('oracle', 3.0, '0.8818', '0.2977', 0),
    ('progress(window=0.06)', 1.5, '0.6170', '0.6433', 1),
    ('progress(window=0.06)', 3.0, '0.8174', '0.4527', 1),
  ]


def test_the_figures_of_the_rule_in_force_at_38_evaluations():
  """In the first half of a run, the median of which has 72 evaluations."""
  rule = read_rule('{"name": "either", "rules": [{}, {"window": 0.06}]}')
  sight = Sight(evaluations=38, first_half=True)
  runs = cases.comparable(reading.read_runs())
  found = tables.figures([cases.replay(runs, rule, sight)], tables.BUDGETS)
  assert [f'{one["reached"]:.3f}' for one in found] == ['0.621', '0.822']
  assert found[0]['false_alarms'] == 5
  assert found[0]['spoke'] == {
    **{'ChainLossRule': 98, 'Progress': 135},
    'ChainLossRule and Progress': 6,
  }

"""The tables of the page, from runs made here; the page itself."""

import math

from reset_cycles.research.real_runner import cases, logs, page


def test_real_data_have_a_table_of_their_own():
  name = cases.REAL[0]
  found = {
    logs.RunKey(case, 'counted', 'x', 1, cases.CASES[case].target): [
      logs.Point(1, 0.5, 2.0, 100.0)
    ]
    for case in ('molecules', name)
  }
  assert page.tables_of(found, cases.REAL) == [
    'Steps to the target, counted clock:',
    '',
    f'| entry | {name}, {cases.CASES[name].target} |',
    '| --- | --- |',
    '| x | **1**, 1 of 1 |',
  ]


def test_further_workloads_show_the_course_of_a_run():
  """Less of wer is better, more of accuracy; each has its own best."""
  points = [
    logs.Point(1, 0.5, 2.25, 0.3),
    logs.Point(9, 4.5, 0.5, 0.12345),
    logs.Point(17, 8.5, 1.0, 0.2),
  ]
  found = {
    logs.RunKey('spoken_deepspeech', 'counted', 'x', 1, 0.0): points,
    logs.RunKey('cifar10', 'counted', 'y', 2, 1.0): points,
    logs.RunKey('tox21', 'counted', 'x', 1, 0.0): points,
  }
  assert page.courses_of(found, cases.FURTHER) == [
    '| case | entry | seed | steps | loss: first, least, last '
    '| metric: first, best, last |',
    '| --- | --- | --- | --- | --- | --- |',
    '| cifar10 | y | 2 | 17 | 2.25, 0.5, 1 | 0.3, 0.3, 0.2 |',
    '| spoken_deepspeech | x | 1 | 17 | 2.25, 0.5, 1 | 0.3, 0.123, 0.2 |',
  ]


def test_metrics_at_the_target_are_shown_on_both_splits():
  """Two of the runs of x reach it; what was not evaluated does not count."""
  target = cases.CASES['multi30k'].target
  key = logs.RunKey('multi30k', 'counted', 'x', 1, target)
  points = [
    logs.Point(1, 0.5, 2.25, target - 1, math.nan),
    logs.Point(9, 4.5, 1.0, target + 1, 7.5),
    logs.Point(17, 8.5, 0.5, target + 2, 99.0),
  ]
  last = points[1]
  found = {
    key: points,
    key._replace(seed=2): [last._replace(metric=target + 2, test=8.5)],
    key._replace(seed=3): points[:1],
    key._replace(seed=4): [last._replace(test=math.nan)],
    key._replace(entry='y'): [last._replace(test=math.nan)],
    key._replace(clock='real'): [last._replace(test=0.0)],
    key._replace(target=100.0): [last._replace(test=0.0)],
  }
  assert page.results_of(found, ['multi30k']) == [
    '| case | entry | runs | validation | test: median, least, most |',
    '| --- | --- | --- | --- | --- |',
    f'| multi30k | x | 2 | {target + 1.5:.3g} | 8, 7.5, 8.5 |',
  ]


def test_runs_of_the_thesis_are_shown_by_their_cycles():
  """Two seeds of a chain, the second one alone beside one cycle."""
  chain = logs.RunKey('thesis_tox21', 'counted', 'thesis_peaks_soft', 11, 0.335)
  one = chain._replace(entry='thesis_one_cycle', seed=12)
  steps = (1, 650, 667, 1334, 1335, 1980)

  def points(*metrics):
    return [logs.Point(s, 0.0, 1.0, m) for s, m in zip(steps, metrics)]

  found = {
    chain: points(0.1, 0.1, 0.2, 0.3, 0.1, 0.25),
    chain._replace(seed=12): points(0.1, 0.1, 0.3, 0.4, 0.1, 0.45),
    one: points(0.1, 0.1, 0.3, 0.3, 0.1, 0.4),
    chain._replace(data='tox21'): points(1.0),
    chain._replace(clock='real'): points(1.0),
  }
  assert page.thesis_of(found)[2:] == [
    '| tox21 | one_cycle | 1 | 0.3 | 0.3 | 0.4 | 0.4, 0.4, 0.4 |  |',
    '| tox21 | peaks_soft | 2 | 0.25 | 0.35 | 0.35 | 0.375, 0.3, 0.45 | 1 of 1 |',
  ]


def test_the_page_has_the_tables_of_its_logs():
  assert logs.README.read_text() == page.text()

"""A plan before anything is trained: its cycles in words."""

import dataclasses

import pytest

from helpers.runs import with_cycles
from reset_cycles.early_switching import AnyOf, ChainLossRule, Progress
from reset_cycles.research.thesis.settings import RUNS
from reset_cycles.schedule_params import THESIS
from reset_cycles.shapes.composed import WSD
from reset_cycles.shapes.simple import Lambda
from reset_cycles.views import planned_runs
from reset_cycles.views.planned_runs import PlannedRun
from reset_cycles.views.text_table import table_lines


def test_a_plan_with_what_is_no_rate_is_refused():
  negative = Lambda(lambda share: 0.475 - share)
  params = with_cycles(RUNS['one_cycle'], decay=negative, warmup_factor=0.0)
  with pytest.raises(ValueError, match=r'learning rate of cycles\[0\]=.*-'):
    planned_runs.planned_rates(PlannedRun(20, params))


def test_rules_that_are_joined_in_words():
  rule = AnyOf((ChainLossRule(k=0.25), Progress()))
  sentences = planned_runs.what_evaluations_decide(
    dataclasses.replace(THESIS, switching=rule)
  )
  assert sentences[0] == (
    'AnyOf(rules=(ChainLossRule(k=0.25), Progress)) may end a cycle early; the '
    'next one then starts at once.'
  )


def test_cycles_of_three_peaks():
  # 2 * 1,600 steps in three cycles of 1067, 1067, 1066; W = floor(0.02 L).
  assert table_lines(cycle_rows(1600, RUNS['peaks_soft'])) == [
    '  cycle  first  last   warm-up       steps  peak       decay   share',
    '  1      1      1,067  LinearWarmup  21     0.001749   Cosine  33.3%',
    '  2      1,068  2,134  LinearWarmup  21     0.002749   Cosine  33.3%',
    '  3      2,135  3,200  LinearWarmup  21     0.0007486  Cosine  33.3%',
  ]


def test_cycles_of_three_warm_ups_of_one_budget_and_of_a_small_peak():
  rows = cycle_rows(1500, RUNS['warmups_full'])
  assert [row[4] for row in rows[1:]] == ['20', '200', '5']
  rows = cycle_rows(1500, RUNS['failed_start_soft'])
  assert [row[1:3] for row in rows[1:]] == [('1', '750'), ('751', '1,500')]
  assert [row[5] for row in rows[1:]] == ['0.05175', '0.001749']
  params = with_cycles(RUNS['one_cycle'], peak=1.5e-7)
  assert cycle_rows(100, params)[1][5] == '1.5e-07'


def cycle_rows(step_hint, params):
  return planned_runs.cycle_rows(PlannedRun(step_hint, params).chain.cycles)


def test_phases_and_checkpoints_of_a_plan():
  """1000 steps: 100 of warm-up, and checkpoints after a half and the whole."""
  params = with_cycles(
    RUNS['one_cycle'], decay=WSD(2, decay=0.2), warmup_factor=0.1, peak=0.5
  )
  plan = PlannedRun(1000, dataclasses.replace(params, budget_factor=1.0))
  lines = list(planned_runs.planned_lines('own', plan))
  assert lines[3:7] == [
    '  cycle  from  stable from  decay from  decay  checkpoint',
    '  1      1     101          461         90     550',
    '  1      551   551          911         90     1,000',
    'No further cycle is planned (has_multiple is False).',
  ]
  # .5 * (1 - 45 / 90) after 45 steps of the second decay.
  for step, said in {
    1: 'warm-up, rate 0; steps 1 to 550, decay from 461.',
    101: 'stable, rate 0.5; steps 1 to 550, decay from 461.',
    956: 'decay, rate 0.25; steps 551 to 1,000, decay from 911.',
  }.items():
    assert planned_runs.step_line(plan, step) == f'Step {step}: cycle 1, {said}'


def test_when_further_cycles_start():
  lines = list(planned_runs.planned_lines('thesis', PlannedRun(80_000, THESIS)))
  start = 'Steps after which a further cycle starts (reinit_steps): '
  assert f'{start}53,334, 106,667.' in lines

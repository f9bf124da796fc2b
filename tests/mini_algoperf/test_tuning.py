"""The external ruleset of the stand-in: points of a search space, and trials."""

import json
import math
import pathlib

import pytest

from helpers.documents import ROOT
from helpers.fakes import make_trial, write_own
from helpers.run_files import TRIAL, read_json, run, snapshot
from reset_cycles.cli import main as cli
from reset_cycles.engine.tuned import tuned
from reset_cycles.mini_algoperf import RunOptions, tuning
from reset_cycles.mini_algoperf.trial import SELF_TUNING_BUDGET
from reset_cycles.schedule_params import SCHEDULE_PARAMS

SPACE = {
  'learning_rate': {'min': 1e-4, 'max': 1e-2, 'scaling': 'log'},
  'weight_decay': {'min': -1, 'max': 3, 'scaling': 'linear'},
  'alpha': {'feasible_points': [0.0, 0.5, 1.0]},
}


def test_points_lie_in_their_ranges_and_are_spread():
  points = tuning.points_of(SPACE, 32, seed=3)
  assert [p._fields for p in points] == [tuple(SPACE)] * 32
  eighths = [math.floor(4 * (4 + math.log10(p.learning_rate))) for p in points]
  assert [eighths.count(i) for i in range(8)] == [4] * 8
  parts = [math.floor((p.weight_decay + 1) / 0.8) for p in points]
  assert all(4 <= parts.count(i) <= 8 for i in range(5))
  assert {p.alpha for p in points} == {0.0, 0.5, 1.0}
  assert tuning.points_of(SPACE, 32, seed=3) == points
  assert tuning.points_of(SPACE, 32, seed=4) != points


def test_a_list_has_the_points_themselves():
  space = [{'alpha': 0.0}, {'alpha': 0.5}, {'alpha': 1.0}]
  points = tuning.points_of(space, 2, seed=None)
  assert [p._asdict() for p in points] == space[:2]
  assert len(tuning.points_of(space, 9, seed=None)) == 3


def test_outermost_points():
  points = [tuple(p) for p in tuning.outermost_points(SPACE)]
  assert points == [
    (rate, decay, alpha)
    for rate in (1e-4, 1e-2)
    for decay in (-1, 3)
    for alpha in (0.0, 0.5, 1.0)
  ]
  many = {f'x{i}': {'feasible_points': [0, 1]} for i in range(13)}
  assert len(tuning.outermost_points(many)) == 26


def test_the_settings_in_force_take_the_search_space_of_the_root():
  """Every corner of it; their own numbers lie inside."""
  space = json.loads((ROOT / 'tuning_search_space.json').read_text())
  for name, own in (
    ('relative_peak__share', SCHEDULE_PARAMS.relative_peak.share),
    ('one_minus_beta1', SCHEDULE_PARAMS.optimizer.one_minus_beta1),
    ('optimizer__momentum', SCHEDULE_PARAMS.optimizer.inner.momentum),
    ('weight_decay', SCHEDULE_PARAMS.optimizer.weight_decay),
  ):
    assert space[name]['min'] < own < space[name]['max'], name
  for point in tuning.outermost_points(space):
    assert tuned(SCHEDULE_PARAMS, point) != SCHEDULE_PARAMS


@pytest.mark.parametrize(
  ('space', 'message'),
  (
    (3, 'it must be an object of ranges by names, or a list of points'),
    ({}, 'it must be an object'),
    ([], 'a list must hold points'),
    ([{'a': 1}, {'b': 1}], 'point 2 has other names than the first one'),
    ({'reset.fade': {'feasible_points': [1]}}, "'reset.fade' must be a name"),
    ({'a': {'feasible_points': []}}, "a={'feasible_points': []}: must be {"),
    ({'a': {'min': 1, 'max': 2}}, '"scaling": "linear" or "log"'),
    ({'a': {'min': 0, 'max': 2, 'scaling': 'log'}}, 'and 0 < x for log'),
    ({'a': {'min': 2, 'max': 2, 'scaling': 'linear'}}, 'with x < y'),
    ({'a': {'min': 1, 'max': 2, 'scaling': 'sqrt'}}, "'scaling': 'sqrt'"),
    ({'a': {'min': True, 'max': 2, 'scaling': 'linear'}}, "'min': True"),
    ({'a': {'min': 1, 'max': 10**400, 'scaling': 'log'}}, 'with x < y'),
    ({'a': {'feasible_points': [1], 'step': 2}}, "'step': 2}: must be"),
  ),
)
def test_what_is_no_search_space(space, message):
  with pytest.raises(ValueError) as caught:
    tuning.points_of(space, 1, seed=0)
  assert message in str(caught.value)


def test_the_budget_is_that_of_the_ruleset():
  for generation, factor in SELF_TUNING_BUDGET.items():
    own, _ = make_trial(generation)
    assert own.budget_sec == factor * own.workload.max_allowed_runtime_sec
    other, _ = make_trial(generation, tuning_ruleset='external')
    assert other.budget_sec == other.workload.max_allowed_runtime_sec


FLAGS = [
  '--tuning_ruleset=external',
  '--tuning_search_space=space.json',
  '--num_tuning_trials=2',
]
SECOND = TRIAL.parent / 'trial_2'


@pytest.fixture
def space(tmp_path, fake_workload):
  points = [{'alpha': 0.25}, {'alpha': 0.75}]
  pathlib.Path('space.json').write_text(json.dumps(points))
  return points


def test_every_trial_has_its_point_in_force(space, capsys):
  flags = ['--workload=fake', '--experiment_dir=runs', '--max_global_steps=6']
  assert cli.main(['run', *flags, *FLAGS, write_own('')]) == 0
  for folder, point in zip((TRIAL, SECOND), space):
    assert read_json('hparams.json', folder) == point
    settings = read_json('schedule_params.json', folder)['schedule_params']
    assert settings['reset']['alpha'] == point['alpha']
  said = capsys.readouterr().err
  assert 'trial 1 of 2: alpha 0.25' in said
  assert 'trial 2 of 2: alpha 0.75' in said


def test_every_point_is_checked_before_the_first_trial_trains(space, capsys):
  pathlib.Path('space.json').write_text('[{"alpha": 0.5}, {"alpha": 1.5}]')
  flags = ['--workload=fake', '--experiment_dir=runs', '--max_global_steps=6']
  assert cli.main(['run', *flags, *FLAGS, write_own('')]) == 2
  assert (
    'reset.alpha=1.5: must be a number in [0, 1]' in capsys.readouterr().err
  )
  assert not pathlib.Path('runs').exists()


def test_a_trial_that_has_ended_is_not_repeated(space, capsys):
  assert run(*FLAGS) == 0
  first = snapshot(TRIAL)
  pathlib.Path('space.json').write_text(json.dumps([*space, {'alpha': 1.0}]))
  more = [*FLAGS[:2], '--num_tuning_trials=3', '--resume_last_run']
  capsys.readouterr()
  assert run(*more) == 0
  assert snapshot(TRIAL) == first
  said = capsys.readouterr()
  assert said.out.count('there is nothing to resume') == 2
  assert 'trial 3 of 3: alpha 1' in said.err
  assert 'begins anew' not in said.err
  assert read_json('hparams.json', TRIAL.parent / 'trial_3') == {'alpha': 1.0}


def test_a_resumed_trial_keeps_its_point_and_its_ruleset(space, capsys):
  assert run(*FLAGS, submission='interrupt_at=11') == 130
  assert read_json('hparams.json', SECOND) == space[1]
  pathlib.Path('space.json').write_text('[{"alpha": 0.9}, {"alpha": 0.8}]')
  assert run('--resume_last_run') == 2
  assert '--tuning_ruleset=self: the run to re' in capsys.readouterr().err
  assert run(*FLAGS, '--resume_last_run') == 0
  said = capsys.readouterr().err
  assert (
    'trial 1 of 2: alpha 0.25' in said and 'trial 2 of 2: alpha 0.75' in said
  )


def test_a_resumed_trial_has_the_settings_of_its_point(space, capsys):
  flags = ['--workload=fake', '--experiment_dir=runs', '--rng_seed=3', *FLAGS]
  flags.append(write_own(''))
  assert cli.main(['run', *flags, '--max_global_steps=1']) == 0
  pathlib.Path('space.json').write_text('[{"alpha": 0.9}, {"alpha": 0.8}]')
  flags += ['--resume_last_run', '--max_global_steps=2']
  assert cli.main(['run', *flags]) == 0
  other = [f for f in flags if not f.startswith('--submission_path')]
  before = snapshot(TRIAL.parent)
  capsys.readouterr()
  assert cli.main(['run', *other]) == 2
  assert 'was begun with another schedule_params' in capsys.readouterr().err
  assert snapshot(TRIAL.parent) == before


def test_another_search_space_does_not_resume_a_trial(space, capsys):
  assert run(*FLAGS, submission='interrupt_at=11') == 130
  pathlib.Path('space.json').write_text('[{"beta2": 0.9}, {"beta2": 0.8}]')
  capsys.readouterr()
  assert run(*FLAGS, '--resume_last_run') == 2
  said = '--tuning_search_space: the trial to resume has alpha; give the file'
  assert said in capsys.readouterr().err


def test_a_list_that_is_too_short_is_told(space, capsys):
  assert run(*FLAGS[:2], '--num_tuning_trials=5') == 0
  assert 'the list has 2 points' in capsys.readouterr().err


def test_options_of_the_self_tuning_ruleset_have_no_point():
  assert tuning.read_points(RunOptions('digits')) == [None]

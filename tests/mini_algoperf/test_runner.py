"""The training loop: order of calls, keys, budgets, evaluations, the end."""

from __future__ import annotations

import dataclasses
import itertools
import os

import jax
import numpy as np
import pytest

from helpers.fakes import (
  BATCH_SIZE,
  Clock,
  FakeSubmission,
  FakeWorkload,
)
from reset_cycles.mini_algoperf import (
  RunOptions,
  checkpoints,
  files,
  runner,
  trial,
)
from reset_cycles.mini_algoperf.submission_loader import as_submission

OPTIONS = RunOptions('fake', eval_every=5)
SIZES = trial.BatchSizes(BATCH_SIZE, BATCH_SIZE)


def make_trial(
  generation='jit',
  settings=None,
  workload=None,
  submission=None,
  log_dir=None,
  hyperparameters=None,
  seed=0,
):
  """A trial of fakes that share a clock and a tape; settings are changes."""
  clock, tape = Clock(), []
  fake = FakeSubmission(tape, clock, **(submission or {}))
  result = trial.Trial(
    FakeWorkload(generation, tape, clock, **(workload or {})),
    as_submission(fake, 'fake'),
    dataclasses.replace(OPTIONS, **(settings or {})),
    SIZES,
    hyperparameters,
    seed,
    log_dir,
    clock,
  )
  if log_dir is not None:
    result.open_log({})
  return result, fake


def evaluated_steps(run):
  return [step for step, _ in run.eval_results]


def test_tape_of_the_jit_generation(tmp_path, monkeypatch):
  run, fake = make_trial(
    'jit', {'max_global_steps': 3, 'eval_every': 2}, log_dir=tmp_path
  )
  save = checkpoints.save

  def noted_save(log_dir, state, generation, keep_all):
    fake.tape.append(f'checkpoint {state["global_step"]}')
    return save(log_dir, state, generation, keep_all)

  monkeypatch.setattr(checkpoints, 'save', noted_save)
  runner.train(run)
  assert fake.tape == [
    'select 0',
    'update 0',
    'prepare 1',
    'eval 1',
    'checkpoint 1',
    'select 1',
    'update 1',
    'prepare 2',
    'eval 2',
    'checkpoint 2',
    'select 2',
    'update 2',
    'prepare 3',
    'eval 3',
    'checkpoint 3',
    'checkpoint 3',
  ]


def test_tape_of_the_pmap_generation_has_no_prepare_for_eval():
  run, fake = make_trial('pmap', {'max_global_steps': 3, 'eval_every': 2})
  runner.train(run)
  assert fake.tape == [
    'select 0',
    'update 0',
    'eval 1',
    'select 1',
    'update 1',
    'eval 2',
    'select 2',
    'update 2',
    'eval 3',
  ]


@pytest.mark.parametrize('generation', ['jit', 'pmap'])
def test_training_complete_error_ends_with_one_evaluation(generation):
  run, fake = make_trial(generation, submission={'complete_at': 7})
  runner.train(run)
  assert evaluated_steps(run) == [1, 5, 8]
  assert fake.tape.count('update 7') == 1
  assert 'update 8' not in fake.tape
  assert run.train_state['training_complete']


def test_the_error_of_the_benchmarks_own_spec_ends_the_run_too(monkeypatch):
  """A submission may import it from there: another class of that name."""
  theirs = type('TrainingCompleteError', (Exception,), {})
  run, fake = make_trial()

  def stop(global_step):
    if global_step == 3:
      raise theirs

  monkeypatch.setattr(fake, '_stop', stop)
  runner.train(run)
  assert run.train_state['training_complete']
  assert evaluated_steps(run) == [1, 4]


def test_the_devices_are_waited_for_before_an_evaluation(monkeypatch):
  """Else a CPU's training would be counted as evaluation."""
  run, fake = make_trial('jit', {'max_global_steps': 3, 'eval_every': 2})
  wait = jax.block_until_ready

  def noted(tree):
    fake.tape.append('wait')
    assert jax.tree_util.tree_leaves(tree)
    return wait(tree)

  monkeypatch.setattr(jax, 'block_until_ready', noted)
  runner.train(run)
  waits = [i for i, what in enumerate(fake.tape) if what == 'wait']
  assert [fake.tape[i - 1] for i in waits] == [f'update {i}' for i in range(3)]
  assert [fake.tape[i + 1] for i in waits] == [
    f'prepare {i}' for i in (1, 2, 3)
  ]


def test_keys_follow_the_benchmarks_derivation():
  run, fake = make_trial('jit', {'max_global_steps': 2}, seed=4)
  runner.train(run)
  _, _, _, rng = jax.random.split(jax.random.PRNGKey(4), 4)
  for step, seen in enumerate(fake.seen):
    keys = jax.random.split(jax.random.fold_in(rng, step), 4)
    np.testing.assert_array_equal(seen['select'], keys[0])
    np.testing.assert_array_equal(seen['rng'], keys[1])


def test_train_state_is_for_reading_only():
  run, fake = make_trial(settings={'max_global_steps': 2})
  runner.train(run)
  books = fake.seen[1]['train_state']
  assert books['accumulated_submission_time'] > 0
  with pytest.raises(TypeError):
    books['training_complete'] = True


def test_eval_results_reach_the_next_step():
  run, fake = make_trial(settings={'max_global_steps': 7})
  runner.train(run)
  steps = [[step for step, _ in seen['eval_results']] for seen in fake.seen]
  assert steps == [[], [1], [1], [1], [1], [1, 5], [1, 5]]


@pytest.mark.parametrize(
  'generation, eval_every, ruleset, last_step, evaluations',
  [
    # max_allowed_runtime_sec is 10, a step takes a second. Only jit prepares
    # for evaluations, which takes two more, and checks its 15 seconds there:
    # 3, 9, 16 seconds at steps 1, 5, 10. No evaluation follows.
    ('jit', 5, 'self', 10, [1, 5]),
    # 3, 14 and 26 seconds at steps 1, 10, 20.
    ('jit', 10, 'self', 20, [1, 10]),
    # 10 seconds; 3, 9, 16 again.
    ('jit', 5, 'external', 10, [1, 5]),
    # 30 seconds, checked at every step; an evaluation that is due follows.
    ('pmap', 5, 'self', 30, [1, 5, 10, 15, 20, 25, 30]),
    ('pmap', 7, 'self', 30, [1, 7, 14, 21, 28]),
    ('pmap', 7, 'external', 10, [1, 7]),
  ],
)
def test_budget(generation, eval_every, ruleset, last_step, evaluations):
  run, _ = make_trial(
    generation, {'eval_every': eval_every, 'tuning_ruleset': ruleset}
  )
  runner.train(run)
  assert run.global_step == last_step
  assert evaluated_steps(run) == evaluations
  assert not run.train_state['is_time_remaining']


def test_evaluations_take_no_time_and_preparing_for_them_does():
  run, _ = make_trial('jit', {'max_global_steps': 6})
  runner.train(run)
  # Six steps of a second, three evaluations to prepare for in two.
  assert run.train_state['accumulated_submission_time'] == 12
  assert run.train_state['accumulated_eval_time'] == 300
  first = run.eval_results[0][1]
  assert (first['score'], first['total_duration']) == (3, 103)


def test_evaluations_by_wall_clock():
  # Every 4 seconds of training; the clock stands 100 seconds per evaluation.
  run, _ = make_trial('pmap', {'eval_by': 'time', 'max_global_steps': 10})
  runner.train(run)
  assert evaluated_steps(run) == [1, 5, 9, 10]


def test_a_run_ends_when_both_targets_are_reached():
  # Validation wants more than 0.8, test more than 0.9; a target stays reached.
  values = {1: 0.1, 5: 0.85, 10: 0.95, 15: 0.0}
  workload = {'accuracy': values.get}
  run, _ = make_trial('pmap', workload=workload)
  runner.train(run)
  assert evaluated_steps(run) == [1, 5, 10]
  assert run.train_state['validation_goal_reached']
  assert run.train_state['test_goal_reached']


def test_validation_target_alone_does_not_end_a_run():
  run, _ = make_trial('pmap', workload={'accuracy': lambda step: 0.85})
  runner.train(run)
  assert run.global_step == 30
  assert not run.train_state['test_goal_reached']


def test_a_split_that_is_left_out_reaches_no_target():
  run, _ = make_trial(
    settings={'max_global_steps': 10}, workload={'accuracy': lambda _: 0.95}
  )
  run.workload.eval_splits = ('validation',)
  runner.train(run)
  assert run.global_step == 10
  assert run.train_state['validation_goal_reached']
  assert not run.train_state['test_goal_reached']


@pytest.mark.parametrize(
  'generation, point, expected',
  [
    ('jit', {'dropout_rate': 0.3}, ((), {})),
    ('pmap', {}, ((), {'dropout_rate': None, 'aux_dropout_rate': None})),
    (
      'pmap',
      {'dropout_rate': 0.3},
      ((), {'dropout_rate': 0.3, 'aux_dropout_rate': None}),
    ),
  ],
)
def test_dropout_is_handed_to_the_model_in_2024_only(
  generation, point, expected
):
  hyperparameters = dataclasses.make_dataclass('Point', point)(**point)
  run, _ = make_trial(generation, hyperparameters=hyperparameters)
  assert run.workload._dropout == expected


def test_a_bug_in_a_step_keeps_its_own_error():
  run, _ = make_trial(submission={'fail_at': 2})
  with pytest.raises(ValueError, match='^a bug$'):
    runner.train(run)


class ShortWorkload(FakeWorkload):
  """Its data have an end."""

  def _build_input_queue(self, *args):
    return itertools.islice(super()._build_input_queue(*args), 3)


def test_data_that_end_are_said_in_one_line():
  run = trial.Trial(
    ShortWorkload(),
    as_submission(FakeSubmission(), 'fake'),
    OPTIONS,
    SIZES,
    None,
    0,
  )
  with pytest.raises(trial.DataEndedError) as raised:
    runner.train(run)
  assert str(raised.value) == (
    'the training data ended after 3 batches: a workload must give them '
    'without end.'
  )
  assert run.global_step == 3


def test_data_of_the_submissions_own_that_end():
  run, fake = make_trial()

  def own_data(workload, input_queue, *args):
    return fake.data_selection(
      workload, itertools.islice(input_queue, 0), *args
    )

  run.submission = run.submission._replace(data_selection=own_data)
  with pytest.raises(trial.DataEndedError) as raised:
    runner.train(run)
  assert str(raised.value) == (
    "data_selection has no batch for step 0: a submission's data must have no "
    'end.'
  )


@pytest.mark.parametrize(
  ('full', 'steps'),
  [('checkpoint_5', ['1', '5']), ('eval_measurements.csv', ['1'])],
)
def test_a_full_disk_leaves_what_was_written(full, steps, tmp_path):
  run, _ = make_trial(settings={'max_global_steps': 9}, log_dir=tmp_path)

  class Filling(runner.Observer):
    def on_step(self, run):
      if run.global_step == 4:  # the next write of this file finds no space
        temporary = tmp_path / f'.{full}.{os.getpid()}.tmp'
        temporary.symlink_to('/dev/full')

  with pytest.raises(files.WriteError) as raised:
    runner.train(run, Filling())
  assert str(raised.value) == (
    f'{tmp_path / full} cannot be written: No space left on device.'
  )
  assert checkpoints.read_latest(tmp_path)['global_step'] == 1
  rows = files.read_rows(tmp_path / 'eval_measurements.csv')
  assert [row['global_step'] for row in rows] == steps


def test_observers_follow_an_evaluation_before_its_checkpoint(tmp_path):
  """What they write is there when a run can no longer go back behind it."""
  saved = []

  class Observer(runner.Observer):
    def on_evaluation(self, run):
      raw = checkpoints.read_latest(tmp_path)
      saved.append((run.global_step, raw and raw['global_step']))

  run, _ = make_trial(
    settings={'max_global_steps': 2, 'save_checkpoints': True}, log_dir=tmp_path
  )
  runner.train(run, Observer())
  assert saved == [(1, None), (2, 1)]

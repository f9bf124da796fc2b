"""The training loop: order of calls, keys, budgets, evaluations, the end."""

import jax
import numpy as np
import pytest

from helpers.fakes import FakeSubmission, make_trial
from reset_cycles.mini_algoperf import checkpoints, runner, spec

BOTH = ('validation', 'test')
GENERATIONS = pytest.mark.parametrize('generation', ['jit', 'pmap'])


def trained(*args, **settings):
  run, fake = make_trial(*args, **settings)
  runner.train(run)
  return run, fake


def evaluated_steps(run):
  return [step for step, _ in run.eval_results]


@GENERATIONS
def test_the_tape(generation, tmp_path, monkeypatch):
  """Devices are waited for, else a CPU's training would count as evaluation."""
  run, fake = make_trial(
    generation, log_dir=tmp_path, max_global_steps=3, eval_every=2
  )
  save, wait = checkpoints.save, jax.block_until_ready

  def noted_save(*args):
    fake.tape.append('checkpoint')
    return save(*args)

  def noted_wait(tree):
    fake.tape.append('wait')
    assert jax.tree_util.tree_leaves(tree)
    return wait(tree)

  monkeypatch.setattr(checkpoints, 'save', noted_save)
  monkeypatch.setattr(jax, 'block_until_ready', noted_wait)
  runner.train(run)
  expected = []
  for step in range(3):
    expected += [f'select {step}', f'update {step}', 'wait']
    expected += [f'prepare {step + 1}'] * (generation == 'jit')
    expected += [f'eval {step + 1}', 'checkpoint']
  assert fake.tape == [*expected, 'checkpoint']


# Its own, or the benchmark's, which a submission may import.
@pytest.mark.parametrize(
  'error',
  [spec.TrainingCompleteError, type('TrainingCompleteError', (Exception,), {})],
)
@GENERATIONS
def test_training_complete_error_ends_with_one_evaluation(
  generation, error, monkeypatch
):
  def stop(fake, global_step):
    if global_step == 7:
      raise error

  monkeypatch.setattr(FakeSubmission, '_stop', stop)
  run, fake = trained(generation)
  assert evaluated_steps(run) == [1, 5, 8]
  assert fake.tape.count('update 7') == 1
  assert 'update 8' not in fake.tape
  assert run.train_state['training_complete']


def test_what_a_step_is_given():
  run, fake = trained(max_global_steps=7, seed=4)
  # Keys follow the benchmark's derivation.
  _, _, _, rng = jax.random.split(jax.random.PRNGKey(4), 4)
  for step, seen in enumerate(fake.seen):
    keys = jax.random.split(jax.random.fold_in(rng, step), 4)
    np.testing.assert_array_equal(seen['select'], keys[0])
    np.testing.assert_array_equal(seen['rng'], keys[1])
  # The books are for reading only.
  books = fake.seen[1]['train_state']
  assert books['accumulated_submission_time'] > 0
  with pytest.raises(TypeError):
    books['training_complete'] = True
  # Evaluations reach the next step.
  steps = [[step for step, _ in seen['eval_results']] for seen in fake.seen]
  assert steps == [[], [1], [1], [1], [1], [1, 5], [1, 5]]


@pytest.mark.parametrize(
  ('generation', 'every', 'options', 'last_step', 'evaluations'),
  [
    # max_allowed_runtime_sec is 10, a step takes a second. Only jit prepares
    # for evaluations, which takes two more, and checks its 15 seconds there:
    # 3, 9, 16 seconds at steps 1, 5, 10. No evaluation follows.
    ('jit', 5, {}, 10, [1, 5]),
    # 3, 14 and 26 seconds at steps 1, 10, 20.
    ('jit', 10, {}, 20, [1, 10]),
    # 30 seconds, checked at every step; an evaluation that is due follows.
    ('pmap', 5, {}, 30, [1, 5, 10, 15, 20, 25, 30]),
    ('pmap', 7, {}, 30, [1, 7, 14, 21, 28]),
    # By wall clock, every 4 seconds of training; it stands while evaluating.
    ('pmap', None, {'eval_by': 'time'}, 30, [1, 5, 9, 13, 17, 21, 25, 29]),
  ],
)
def test_budget(generation, every, options, last_step, evaluations):
  run, _ = trained(generation, eval_every=every, **options)
  assert run.global_step == last_step
  assert evaluated_steps(run) == evaluations
  assert not run.train_state['is_time_remaining']


@pytest.mark.parametrize(
  ('accuracy', 'splits', 'stop', 'last_step', 'reached'),
  [
    # Validation wants more than 0.8, test more than 0.9; a target stays reached.
    ({1: 0.1, 5: 0.85, 10: 0.95, 15: 0.0}.get, BOTH, True, 10, (True, True)),
    # The validation target alone does not end a run.
    (lambda step: 0.85, BOTH, True, 30, (True, False)),
    # Without a test split that is evaluated, validation decides alone.
    ({1: 0.1, 5: 0.85, 10: 0.0}.get, BOTH[:1], True, 5, (True, True)),
    (lambda step: 0.95, BOTH, False, 30, (True, True)),
  ],
)
def test_a_run_ends_when_both_targets_are_reached(
  accuracy, splits, stop, last_step, reached
):
  run, _ = make_trial('pmap', accuracy=accuracy, stop_at_targets=stop)
  run.workload.eval_splits = splits
  runner.train(run)
  assert run.global_step == last_step
  names = ('validation_goal_reached', 'test_goal_reached')
  assert tuple(run.train_state[name] for name in names) == reached


def test_dropout_is_handed_to_the_model_in_2024_only():
  run, _ = make_trial('jit')
  assert run.workload._dropout == ((), {})
  run, _ = make_trial('pmap')
  none = {'dropout_rate': None, 'aux_dropout_rate': None}
  assert run.workload._dropout == ((), none)


def test_observers_follow_an_evaluation_before_its_checkpoint(tmp_path):
  """What they write is there when a run can no longer go back behind it."""
  saved = []

  class Observer(runner.Observer):
    def on_evaluation(self, run):
      raw = checkpoints.read_latest(tmp_path)
      saved.append((run.global_step, raw and raw['global_step']))

    def on_step(self, run):
      if run.global_step == 5:  # as a signal does
        raise KeyboardInterrupt

  run, _ = make_trial(log_dir=tmp_path)
  with pytest.raises(KeyboardInterrupt):
    runner.train(run, Observer())
  assert saved == [(1, None), (5, 1)]
  assert checkpoints.read_latest(tmp_path)['global_step'] == 5

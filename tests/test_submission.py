"""The functions that the benchmark calls."""

import collections

import jax
import numpy as np
import pytest

from helpers import fake_benchmark
from helpers.fake_benchmark import WORKLOADS
from helpers.runs import PARAMS, new_driver, newly_set_up
from reset_cycles import submission
from reset_cycles.engine.run import model_reinit_schedule
from reset_cycles.engine.tuned import tuned
from reset_cycles.schedule_params import SCHEDULE_PARAMS, THESIS


def test_the_external_ruleset_replaces_settings_and_has_its_own_budget():
  workload = fake_benchmark.TinyWorkload()
  workload.max_allowed_runtime_sec = 100
  model = workload.init_model_fn(jax.random.PRNGKey(0))
  init = submission.make_submission(THESIS).init_optimizer_state
  point = collections.namedtuple('Hyperparameters', 'learning_rate alpha')
  key = jax.random.PRNGKey(1)
  for hyperparameters in (None, {}):
    _, run = init(workload, *model, hyperparameters, key)
    assert run.config.settings is THESIS
    assert run.config.budget == 150.0
  _, run = init(workload, *model, point(0.5, 0.25), key)
  assert run.config.settings == tuned(THESIS, point(0.5, 0.25))
  assert [c.cycle.peak for c in run.config.chain.cycles] == [0.5] * 3
  assert run.config.budget == 100.0


def test_a_wrong_hyperparameter_is_refused_before_any_step():
  workload = fake_benchmark.TinyWorkload()
  model = workload.init_model_fn(jax.random.PRNGKey(0))
  with pytest.raises(ValueError, match='hyperparameter learning_rate=0.5: no'):
    submission.init_optimizer_state(
      workload, *model, {'learning_rate': 0.5}, jax.random.PRNGKey(1)
    )


def test_schedules_are_checked_before_training():
  with pytest.raises(ValueError, match='over 2 steps .* they get 1, 1, 0'):
    newly_set_up(PARAMS, step_hint=1)


@pytest.mark.parametrize('step_hint', (-4, 0, None, 'many', float('nan')))
def test_a_step_hint_that_is_no_number_of_steps(step_hint):
  """Before any step: cycles of -4 steps would end the run after the first."""
  right = rf'^step_hint={step_hint!r}: must be a number in \(0, inf\)'
  with pytest.raises(ValueError, match=right):
    newly_set_up(PARAMS, step_hint=step_hint)


@pytest.mark.parametrize('generation', WORKLOADS)
def test_parameters_in_float16_are_refused(generation):
  """Their eps is 0: the first step would divide by 0."""
  workload = WORKLOADS[generation]()
  params, stats = workload.init_model_fn(jax.random.PRNGKey(0))
  params['bias'] = params['bias'].astype(np.float16)
  given = params, stats, None, jax.random.PRNGKey(1)
  with pytest.raises(
    ValueError, match=r"model_params\['bias'\]='float16': must"
  ):
    submission.init_optimizer_state(workload, *given)


@pytest.mark.parametrize('goal', (-0.5, 0.0))
def test_a_target_of_zero_or_less_is_reached_from_the_first_metric(goal):
  workload = fake_benchmark.TinyWorkload()
  workload.validation_target_value = goal
  run = newly_set_up(PARAMS, workload, {}).optimizer_state[1]
  assert run.config.target.value == goal
  assert run.config.target.remaining(goal - 1, goal - 4) == 0.25


def test_nothing_prepares_an_evaluation():
  driver = new_driver()
  driver.run(until=2)
  state, params, model_state = driver.optimizer_state, driver.params, None
  found = submission.prepare_for_eval(
    None, params, None, model_state, None, None, state, [], 5, None
  )
  assert found[0][0] is state[0] and found[1] is params and found[2] is None


def test_a_step_asks_for_a_reset_only_where_something_is_due(monkeypatch):
  """At the start, at the evaluation after step 3, and at the cycles' ends."""
  steps = []

  def noted(*args):
    *_, step, _ = args
    steps.append(step)
    return model_reinit_schedule(*args)

  assert submission.model_reinit_schedule is model_reinit_schedule
  monkeypatch.setattr(submission, 'model_reinit_schedule', noted)
  new_driver(evaluations={3: (1.0, 0.6)}).run()
  assert steps == [0, 3, 4, 8, 12]


@pytest.mark.parametrize(
  'given', (None, 'THESIS', {'cycles': ()}), ids=('none', 'name', 'dict')
)
def test_what_is_no_settings(given):
  with pytest.raises(ValueError, match=r'^settings=.*make_submission\('):
    submission.make_submission(given)


@pytest.mark.parametrize('generation', ('jit', 'pmap'))
def test_the_settings_in_force_train(generation):
  """Whatever they are: through evaluations by the clock to the budget's end."""
  seen = {
    1 + 4 * i: (4.0 / (1 + i), 0.05 * max(i, 1), 1.0 + 6 * i) for i in range(16)
  }
  driver = new_driver(SCHEDULE_PARAMS, generation, seen, step_hint=60)
  assert submission.init_optimizer_state.settings == SCHEDULE_PARAMS
  driver.run(until=60)
  run = driver.optimizer_state[1]
  assert run.control.cycle >= 2
  kernel = run.devices.get(driver.params)['kernel']
  assert np.isfinite(kernel).all()


def test_batch_sizes():
  by_size = {
    16: ['mnist'],
    32: ['fastmri'],
    64: ['finewebedu_lm'],
    128: ['cifar', 'wmt'],
    256: ['librispeech_conformer', 'librispeech_deepspeech'],
    512: ['imagenet_resnet_gelu', 'imagenet_resnet_silu', 'ogbg'],
    1024: ['imagenet_resnet', 'imagenet_vit'],
    262_144: ['criteo1tb'],
  }
  names = [name for found in by_size.values() for name in found]
  assert sorted(names) == sorted(submission._BATCH_SIZES)
  for size, found in by_size.items():
    assert {submission.get_batch_size(name) for name in found} == {size}
  variants = {
    'ogbg_gelu': 512,
    'wmt_post_ln': 128,
    'criteo1tb_layernorm': 262_144,
  }
  for name, size in variants.items():
    assert submission.get_batch_size(name) == size
  for unknown in ('MNIST', '', None):
    with pytest.raises(ValueError, match='workload_name=.* one of cifar'):
      submission.get_batch_size(unknown)

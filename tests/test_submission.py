"""The functions that the benchmark calls."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math

import jax
import pytest

import tiny
from reset_cycles import submission
from reset_cycles.schedule_params import (
  SCHEDULE_PARAMS,
  THESIS,
  ScheduleParams,
)
from runs import (
  PARAMS,
  assert_equal_trees,
  new_driver,
)

RULE = {'lam': 0.7, 'eps1': 0.01, 'eps2': 0.01, 'k': 9, 'm': 9}


def test_external_hyperparameters_take_effect():
  workload = tiny.TinyWorkload()
  params, state = workload.init_model_fn(jax.random.PRNGKey(0))
  point = {'learning_rate': 0.5, 'alpha': 0.25, 'switching_lam': 0.5}
  init, *_ = submission.make_submission(THESIS)
  _, run = init(workload, params, state, point, jax.random.PRNGKey(1))
  rules = run.setup.rules
  assert rules.alpha == 0.25
  assert dataclasses.asdict(rules.switching) == {**RULE, 'lam': 0.5}
  assert [cycle.peak for cycle in rules.cycles] == [0.5] * 3


def test_more_cycles_than_steps():
  with pytest.raises(ValueError, match='3 cycles do not fit into 2 steps'):
    new_driver(step_hint=1)


@pytest.mark.parametrize(
  ('field', 'message'),
  [
    ('decays', r'decays\[1\] is nan at step 0 of its cycle'),
    ('weight_decays', r'weight_decays\[1\] is nan at step 0 of its cycle'),
  ],
)
def test_a_schedule_that_is_no_rate_is_refused_before_training(field, message):
  bad = {'name': 'lambda', 'function': lambda share: share * math.nan}
  params = dataclasses.replace(PARAMS, **{field: ('constant', bad, 'cosine')})
  with pytest.raises(ValueError, match=message):
    new_driver(params)


def test_no_folder_is_said_once(caplog):
  caplog.set_level('WARNING', logger='absl')
  assert new_driver().run()
  said = [r for r in caplog.messages if 'No experiment folder' in r]
  assert len(said) == 1


def test_a_run_that_would_hold_a_rate_of_zero_is_refused_before_training():
  with pytest.raises(ValueError, match=r"^policy='hold': .* ends at 0, "):
    new_driver(dataclasses.replace(PARAMS, policy='hold'))


def configuration_in(folder):
  """(step_hint, settings) as they were written."""
  written = json.loads((folder / 'schedule_params.json').read_text())
  params = ScheduleParams.from_dict(written['schedule_params'])
  return written['step_hint'], params


def test_files_at_initialisation(folder):
  new_driver()
  assert (folder / 'lr_schedule.png').read_bytes()[:4] == b'\x89PNG'
  assert configuration_in(folder) == (6, PARAMS)


def restarted(folder, caplog, params, step_hint=6):
  """What is said, and the settings in force, when a run is begun again."""
  caplog.clear()
  caplog.set_level('WARNING', logger='absl')
  driver = new_driver(params, step_hint=step_hint)
  said = [r.getMessage() for r in caplog.records]
  return said, driver.optimizer_state[1].setup


def test_a_run_that_has_begun_goes_on_with_its_own_settings(folder, caplog):
  new_driver(PARAMS)
  (folder / 'checkpoint_4').touch()
  given = PARAMS.override({'alpha': 0.25, 'switching_k': 5})
  said, setup = restarted(folder, caplog, given)
  assert said == [
    'The run goes on with the settings that it was started with: '
    'alpha: 0.5 in the run, 0.25 now; switching.k: 2 in the run, 5 now.'
  ]
  assert (setup.rules.alpha, setup.rules.switching.k) == (0.5, 2)
  assert configuration_in(folder) == (6, PARAMS)
  assert restarted(folder, caplog, PARAMS)[0] == []


def test_a_run_of_another_length_is_not_gone_on_with(folder, caplog):
  new_driver(PARAMS)
  (folder / 'checkpoint_4').touch()
  with pytest.raises(ValueError, match='^step_hint=7: step_hint must be 6, '):
    restarted(folder, caplog, PARAMS, step_hint=7)
  assert configuration_in(folder) == (6, PARAMS)


def test_a_run_without_a_checkpoint_begins_anew(folder, caplog):
  new_driver(PARAMS)
  given = dataclasses.replace(PARAMS, alpha=0.25)
  said, setup = restarted(folder, caplog, given, step_hint=7)
  assert said == []
  assert setup.rules.alpha == 0.25
  assert configuration_in(folder) == (7, given)


def test_a_run_that_has_begun_with_a_file_that_cannot_be_read(folder, caplog):
  (folder / 'checkpoint_4').touch()
  (folder / 'schedule_params.json').write_text('{"step_hint": 6')
  said, setup = restarted(folder, caplog, PARAMS)
  assert len(said) == 1
  assert said[0].startswith('Reading schedule_params.json failed: ValueError: ')
  assert setup.rules.switching.k == 2


def test_a_shape_of_python_leaves_no_configuration(folder, caplog):
  caplog.set_level('WARNING', logger='absl')
  shape = {'name': 'lambda', 'function': lambda share: 1.0 - share}
  params = dataclasses.replace(PARAMS, decays=('cosine', 'wsd', shape))
  driver = new_driver(params)
  assert driver.run()
  assert not (folder / 'schedule_params.json').exists()
  assert (folder / 'lr_schedule.png').exists()
  said = [
    r for r in caplog.records if 'has a Python function' in r.getMessage()
  ]
  assert len(said) == 1


@pytest.mark.parametrize(
  ('generation', 'point', 'expected'),
  [
    ('jit', None, []),
    ('pmap', None, ['dropout_rate']),
    ('pmap', {'alpha': 0.25}, ['dropout_rate']),
    ('pmap', {'dropout_rate': 0.25}, []),
  ],
)
def test_a_dropout_rate_that_is_not_in_force_is_said(
  generation, point, expected, folder, caplog
):
  """In v0.5.0 the runner builds the model, with its own rate if self-tuned."""
  caplog.set_level('WARNING', logger='absl')
  workload = tiny.WORKLOADS[generation]()
  model = workload.init_model_fn(jax.random.PRNGKey(0))
  submission.init_optimizer_state(
    workload, *model, point, jax.random.PRNGKey(1)
  )
  written = json.loads((folder / 'schedule_params.json').read_text())
  assert written['not_in_force'] == expected
  assert ('dropout_rate' in caplog.text) == bool(expected)


def test_the_runners_dropout_stays_with_the_model():
  """Fresh models are made without changing the workload (v0.5.0)."""
  workload = tiny.PmapTinyWorkload()
  params, state = workload.init_model_fn(jax.random.PRNGKey(0), 0.3)
  submission.init_optimizer_state(
    workload, params, state, None, jax.random.PRNGKey(1)
  )
  assert workload.dropout_of_model == 0.3


def test_two_runs_in_one_process_do_not_see_each_other():
  alone = new_driver()
  assert alone.run()
  together = new_driver()
  other = new_driver(
    dataclasses.replace(PARAMS, reset_mode='full', early_switching=False)
  )
  for _ in range(12):
    together.step()
    other.step()
  assert_equal_trees(together.params, alone.params)
  assert_equal_trees(together.optimizer_state[0], alone.optimizer_state[0])
  assert other.optimizer_state[1].control.num_early_stops == 0


def test_the_functions_have_the_benchmarks_arguments():
  update = inspect.signature(submission.update_params).parameters
  # Both generations pass all by keyword; the current one looks for the last.
  assert list(update) == [
    'workload',
    'current_param_container',
    'current_params_types',
    'model_state',
    'hyperparameters',
    'batch',
    'loss_type',
    'optimizer_state',
    'eval_results',
    'global_step',
    'rng',
    'train_state',
  ]
  prepare = inspect.signature(submission.prepare_for_eval).parameters
  assert list(prepare) == [
    n for n in update if n not in ('batch', 'train_state')
  ]


def prepared(driver):
  return submission.prepare_for_eval(
    None,
    driver.params,
    None,
    driver.model_state,
    None,
    None,
    driver.optimizer_state,
    [],
    5,
    None,
  )


def test_evaluation_is_prepared_by_nothing():
  driver = new_driver()
  driver.run(until=2)
  state, params, model_state = prepared(driver)
  assert state is driver.optimizer_state
  assert params is driver.params
  assert model_state is driver.model_state


def test_data_selection_takes_the_next_batch():
  queue = iter('abc')
  rest = (None,) * 6
  assert submission.data_selection(None, queue, *rest) == 'a'
  assert submission.data_selection(None, queue, *rest) == 'b'


def test_the_module_is_the_submission_of_the_default():
  assert submission.init_optimizer_state.args == (SCHEDULE_PARAMS,)


@pytest.mark.parametrize('target', [0.0, -0.5])
def test_a_target_without_a_tau_is_refused_before_training(target):
  class Odd(tiny.TinyWorkload):
    validation_target_value = target

  def begin(mode):
    params = dataclasses.replace(PARAMS, reset_mode=mode)
    return tiny.Driver(submission.make_submission(params), Odd(), {})

  said = rf'^validation_target_value={target}: .* must be finite and above 0 '
  with pytest.raises(ValueError, match=said):
    begin('soft')
  for mode in ('full', 'kept_momentum', 'cyclic'):
    begin(mode)

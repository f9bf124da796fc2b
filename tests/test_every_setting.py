"""No silent setting: each field of the configuration changes what happens."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tiny
from made_up_parts import (
  AveragedDescent,
  Moved,
  Patience,
  ShareOfTarget,
  registered,
)
from replay import make_params, replay
from reset_cycles import submission
from reset_cycles.control.goals import GOALS
from reset_cycles.control.horizons import HORIZONS
from reset_cycles.control.switching import SWITCHING_RULES
from reset_cycles.optimizers import INNER
from reset_cycles.optimizers.clocked import clocked
from reset_cycles.schedule_params import (
  PARTS,
  THESIS,
  ScheduleParams,
)
from reset_cycles.schedules.cycle import Cycle
from reset_cycles.schedules.lr_schedule import lay_out, static_chain
from reset_cycles.settings.hparams import Hparams
from reset_cycles.settings.named import name_of


def rates(params):
  """Learning rate of each step of 20, or of the step before a boundary."""
  cycles = lay_out(10, params)
  chain, _, reinit_steps = static_chain(cycles)
  steps = np.arange(sum(cycle.steps for cycle in cycles))
  values = jax.jit(jax.vmap(lambda s: jnp.asarray(chain(s))))(steps)
  return reinit_steps, np.asarray(values).tolist()


def updates(params):
  """Three updates, the second gradient being a large one."""
  rate = optax.constant_schedule(0.1)
  cycle = Cycle(100, 0, 0.1, rate, None, params.hparams, 1.0)
  optimizer = clocked(INNER.make(params.optimizer), [cycle])
  values = jnp.float32([1.0, -2.0, 3.0])
  state, found = optimizer.init(values), []
  for scale in (1e-3, 10.0, 1e-3):
    update, state = optimizer.update(scale * jnp.ones(3), state, values)
    found.append(np.asarray(update).tolist())
  return found


def decisions(losses):
  """Events of a run with these losses after steps 1, 2, and so on."""
  evaluations = [(t, loss, 0.5) for t, loss in enumerate(losses, start=1)]
  return lambda params: replay(params, 6, evaluations)[0]


RISE = decisions([1.0, 1.6])  # l' = 0.6 at t = 2
DIP = decisions([1.0, 0.5, 0.875, 0.875])
# At t = 4 the minimum is 2 evaluations old, l = 0.65 and l' = 0.15.
DIP_AND_RISE = decisions([1.0, 0.5, 0.5, 0.65])
TO_THE_END = decisions([])
STEADY = decisions([1.0, 1.0])


class WithDropout(tiny.TinyWorkload):
  """Dropout as its expectation: inputs are smaller."""

  def model_fn(
    self,
    params,
    augmented_and_preprocessed_input_batch,
    model_state,
    mode,
    rng,
    update_batch_norm,
    dropout_rate=0.0,
  ):
    batch = augmented_and_preprocessed_input_batch
    batch = {**batch, 'inputs': (1 - dropout_rate) * batch['inputs']}
    return super().model_fn(
      params, batch, model_state, mode, rng, update_batch_norm, dropout_rate
    )


@functools.cache
def training(params):
  """Parameters after 6 real steps through the benchmark's functions.

  The first cycle ends with step 4, half way to the target: tau = 0.5.
  """
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, WithDropout(6), {4: (1.0, 0.4)})
  driver.run(until=6)
  return np.asarray(driver.params['kernel']).tolist()


def evaluated(params):
  """Parameters that the evaluation after 4 steps sees."""
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, WithDropout(6), {4: (1.0, 0.4)})
  driver.evaluated = {}
  driver.run(until=4)
  return driver.evaluated[4]['kernel'].tolist()


class WithErrors(tiny.TinyWorkload):
  """The metric falls."""

  validation_target_value = 0.2

  def has_reached_validation_target(self, eval_result):
    return eval_result['validation/accuracy'] < self.validation_target_value


@functools.cache
def training_with_errors(params):
  """Likewise, of a metric that falls from 1 to 0.5 in the first cycle."""
  functions = submission.make_submission(params)
  driver = tiny.Driver(functions, WithErrors(6), {1: (1.0, 1.0), 4: (1.0, 0.5)})
  driver.run(until=6)
  return np.asarray(driver.params['kernel']).tolist()


THREE = THESIS
EASY = make_params()  # smoothing off; see replay

# field: what happens, the configuration, the value that changes it.
EFFECTS = {
  'warmups': (rates, THREE.override({'warmup_factor': 0.6}), ['cosine'] * 3),
  'decays': (rates, THREE, ['cosine', 'holding_linear', 'cosine']),
  'alter_lr': (rates, THREE, [0.0, 0.0, 0.01]),
  'alter_warmup': (rates, THREE, [0.0, 0.3, 0.0]),
  'lengths': (rates, THREE, [1.0, 1.0, 2.0]),
  'budget_factor': (rates, THREE, 1.9),
  'learning_rate': (rates, THREE, 0.0018),
  'warmup_factor': (rates, THREE, 0.4),
  'policy': (TO_THE_END, EASY, 'repeat'),
  'horizon': (STEADY, EASY, {'name': 'moved', 'to': 15}),
  'early_switching': (RISE, EASY, False),
  'switching': (STEADY, EASY, 'patience'),
  'switching_lam': (RISE, EASY, 0.75),
  'switching_eps1': (RISE, EASY, 0.61),
  'switching_eps2': (DIP, EASY, 0.38),
  'switching_k': (DIP, EASY, 3),
  'switching_m': (DIP_AND_RISE, EASY.override({'switching_eps2': 0.4}), 3),
  'optimizer': (updates, THREE, 'averaged'),
  'one_minus_beta1': (updates, THREE, 0.1),
  'beta2': (updates, THREE, 0.99),
  'weight_decay': (updates, THREE, 0.1),
  'eps': (updates, THREE, 1e-3),
  'grad_clip': (updates, THREE, 5.0),
  'reset_mode': (training, THREE, 'full'),
  'alpha': (training, THREE, 0.6),
  'goal': (training, THREE, 'share_of_target'),
  'distance': (training_with_errors, THREE, 'linear'),
  'dropout_rate': (training, THREE, 0.2),
  'label_smoothing': (training, THREE, 0.1),
  'weight_decays': (training, THREE, ['ratio'] * 3),
  'alter_weight_decay': (training, THREE, [0.5] * 3),
  'averaging': (evaluated, THREE, {'name': 'lawa', 'k': 2, 'distance': 0.1}),
  'cycles': (rates, THREE, [{}, {'learning_rate': 0.01}, {}]),
}


NOT_BUILT_YET = {'wait'}


@pytest.fixture(autouse=True)
def made_up_parts():
  """A part of each kind that is not the thesis'."""
  with (
    registered(SWITCHING_RULES, patience=Patience),
    registered(GOALS, share_of_target=ShareOfTarget),
    registered(HORIZONS, moved=Moved),
    registered(INNER, averaged=AveragedDescent),
  ):
    yield


def test_all_fields_are_listed():
  fields = dataclasses.fields(ScheduleParams) + dataclasses.fields(Hparams)
  of_parts = {
    f'{field}_{parameter}'
    for field, registry in PARTS.items()
    for parameter in registry.parameters(name_of(getattr(THESIS, field)))
  }
  names = {field.name for field in fields} | of_parts
  assert set(EFFECTS) == names - {'hparams'} - NOT_BUILT_YET


@pytest.mark.parametrize('name', EFFECTS)
def test_every_field_changes_what_happens(name):
  outcome, params, value = EFFECTS[name]
  before = outcome(params)
  assert before == outcome(params.override({'alpha': params.alpha}))
  assert before != outcome(params.override({name: value}))


def test_what_a_moved_horizon_changes():
  events = STEADY(EASY.override({'horizon': {'name': 'moved', 'to': 15}}))
  # 11 of the 12 steps are left and become 14: 4 - 1 nominal ones, 4 and 4.
  assert [
    (e['global_step'], e['event'], e['cycle_end'])
    for e in events
    if 'cycle_end' in e
  ] == [
    (0, 'cycle_start', 4),
    (1, 'clock', 5),
    (5, 'cycle_start', 10),
    (10, 'cycle_start', 15),
  ]


def test_what_another_goal_changes():
  """Half of the target is reached: tau is 0, and so a reset changes nothing."""
  half = {'name': 'share_of_target', 'share': 0.5}
  cyclic = training(THREE.override({'reset_mode': 'cyclic'}))
  assert training(THREE.override({'goal': half})) == cyclic
  assert training(THREE.override({'goal': 'final'})) != cyclic

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
from replay import make_params, replay
from reset_cycles import submission
from reset_cycles.optimizers import adamw as optimizer
from reset_cycles.schedule_params import (
  SCHEDULE_PARAMS,
  Hparams,
  ScheduleParams,
)
from reset_cycles.schedules import lr_schedule


def rates(params):
  """Learning rate of each step of 20, or of the step before a boundary."""
  schedule, _, reinit_steps = lr_schedule.jax_lr_schedule(
    10, params.hparams, params
  )
  steps = np.arange(lr_schedule.horizon_steps(10, params))
  values = jax.jit(jax.vmap(lambda s: jnp.asarray(schedule(s))))(steps)
  return reinit_steps, np.asarray(values).tolist()


def updates(params):
  """Three updates of AdamW, the second gradient being a large one."""
  adamw = optimizer.adamw(params.hparams, [optax.constant_schedule(0.1)], [100])
  values = jnp.float32([1.0, -2.0, 3.0])
  state, found = adamw.init(values), []
  for scale in (1e-3, 10.0, 1e-3):
    update, state = adamw.update(scale * jnp.ones(3), state, values)
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


THREE = SCHEDULE_PARAMS
EASY = make_params()  # smoothing off; see replay

# field: what happens, the configuration, the value that changes it.
EFFECTS = {
  'warmups': (rates, THREE.override({'warmup_factor': 0.6}), ['cosine'] * 3),
  'decays': (rates, THREE, ['cosine', 'linear', 'cosine']),
  'alter_lr': (rates, THREE, [0.0, 0.0, 0.01]),
  'alter_warmup': (rates, THREE, [0.0, 0.3, 0.0]),
  'lengths': (rates, THREE, [1.0, 1.0, 2.0]),
  'budget_factor': (rates, THREE, 1.9),
  'learning_rate': (rates, THREE, 0.0018),
  'warmup_factor': (rates, THREE, 0.4),
  'when_cycles_run_out': (TO_THE_END, EASY, 'hold'),
  'early_switching': (RISE, EASY, False),
  'switch_lam': (RISE, EASY, 0.75),
  'switch_eps1': (RISE, EASY, 0.61),
  'switch_eps2': (DIP, EASY, 0.38),
  'switch_k': (DIP, EASY, 3),
  'switch_m': (DIP_AND_RISE, EASY.override({'switch_eps2': 0.4}), 3),
  'one_minus_beta1': (updates, THREE, 0.1),
  'beta2': (updates, THREE, 0.99),
  'weight_decay': (updates, THREE, 0.1),
  'eps': (updates, THREE, 1e-3),
  'grad_clip': (updates, THREE, 5.0),
  'reset_mode': (training, THREE, 'full'),
  'alpha': (training, THREE, 0.6),
  'dropout_rate': (training, THREE, 0.2),
  'label_smoothing': (training, THREE, 0.1),
  'weight_decays': (training, THREE, ['ratio'] * 3),
  'alter_weight_decay': (training, THREE, [0.5] * 3),
}


def test_all_fields_are_listed():
  fields = dataclasses.fields(ScheduleParams) + dataclasses.fields(Hparams)
  assert set(EFFECTS) == {field.name for field in fields} - {'hparams'}


@pytest.mark.parametrize('name', EFFECTS)
def test_every_field_changes_what_happens(name):
  outcome, params, value = EFFECTS[name]
  before = outcome(params)
  assert before == outcome(params.override({'alpha': params.alpha}))
  assert before != outcome(params.override({name: value}))

"""The settings: what is refused, what an override does, what each changes."""

from __future__ import annotations

import dataclasses
import functools
import math
import re

import numpy as np
import pytest

from helpers import fake_benchmark
from helpers.replay import config_of, replay
from helpers.runs import (
  PARAMS,
  devices_of,
  new_driver,
  newly_set_up,
  with_cycles,
  with_hparams,
)
from reset_cycles.core.cycle import (
  Cooldown,
  Cosine,
  Cycle,
  Hparams,
  LinearWarmup,
)
from reset_cycles.core.horizon import StepHorizon, TimeHorizon
from reset_cycles.core.optimizers import AdamW, ScheduleFreeAdamW, numbers_at
from reset_cycles.core.race import Finish, Race, Repeat
from reset_cycles.core.schedules import anchored_clock
from reset_cycles.early_switching import Progress, SmoothedLossRule
from reset_cycles.parts.chains import chain_of_lists
from reset_cycles.parts.optimizers import NadamW
from reset_cycles.parts.shapes import Constant
from reset_cycles.schedule_params import (
  SCHEDULE_PARAMS,
  SOFT_RESET,
  THESIS,
  ScheduleParams,
)
from reset_cycles.soft_reset import Cyclic, SoftReset

UNIT, SHARE = 'a number in [0, 1]', 'a number in [0, 1)'
POSITIVE, REAL = 'a number in (0, inf)', 'a number in (-inf, inf)'
NOT_NEGATIVE, COUNT = 'a number in [0, inf)', 'a whole number of at least 1'
CYCLES, SHAPE = 'a tuple of one or more Cycles', 'a shape such as Cosine()'
FACTORS = 'a tuple of two or more factors'
NAN, INF = math.nan, math.inf
params_with = functools.partial(ScheduleParams, **vars(THESIS))
REFUSED = (
  (params_with, 'cycles', ((), Cycle(), (Cycle(), 'cosine')), CYCLES),
  (params_with, 'optimizer', ('adamw', AdamW), 'an object such as AdamW()'),
  (params_with, 'budget_factor', (0.0, INF), POSITIVE),
  (params_with, 'reset', ('soft', SoftReset), 'an object such as SoftReset()'),
  (params_with, 'switching', (None,), 'an object such as Progress()'),
  (params_with, 'early_switching', (1,), 'True or False'),
  (params_with, 'policy', ('finish',), 'an object such as Repeat()'),
  (params_with, 'horizon', ('time',), 'an object such as TimeHorizon()'),
  (params_with, 'wait', (None,), 'True or False'),
  (Cycle, 'hparams', ({'beta2': 0.9},), 'Hparams'),
  (Cycle, 'warmup', ('linear',), SHAPE),
  (Cycle, 'decay', (None,), SHAPE),
  (Cycle, 'weight_decay_shape', (1.0,), SHAPE),
  (Cycle, 'length', (0.0, INF), POSITIVE),
  (Cycle, 'min_warmup_steps', (-1, 1.5), 'a whole number of at least 0'),
  (LinearWarmup, 'start', (-0.1, 1.0), SHARE),
  (Cosine, 'floor', (1.0, NAN), SHARE),
  (Cooldown, 'share', (0.0, 1.1), 'a number in (0, 1]'),
  (Hparams, 'dropout_rate', (-0.1, 1.0, NAN, 'much'), SHARE),
  (Hparams, 'learning_rate', (0.0, -1.0, INF, None, 'much'), POSITIVE),
  (Hparams, 'one_minus_beta1', (0.0, 1.1, 'much'), 'a number in (0, 1]'),
  (Hparams, 'beta2', (-0.1, 1.0, 'much'), SHARE),
  (Hparams, 'weight_decay', (-0.1, INF, '0'), NOT_NEGATIVE),
  (Hparams, 'warmup_factor', (-0.1, 1.1, 'much'), UNIT),
  (Hparams, 'eps', (0.0, INF, 'much'), POSITIVE),
  (Hparams, 'grad_clip', (0.0, -1.0, NAN, 'much'), POSITIVE),
  (Hparams, 'label_smoothing', (-0.1, 1.0, 'much'), SHARE),
  (ScheduleFreeAdamW, 'r', (-0.1, NAN), NOT_NEGATIVE),
  (ScheduleFreeAdamW, 'weight_lr_power', (-0.1, NAN), NOT_NEGATIVE),
  (SoftReset, 'alpha', (-0.1, 1.5, NAN), UNIT),
  (SoftReset, 'scale', ('logg',), 'one of log, linear. Did you mean log?'),
  (SmoothedLossRule, 'lam', (0.0, 1.1), 'a number in (0, 1]'),
  (SmoothedLossRule, 'eps1', (INF,), REAL),
  (SmoothedLossRule, 'eps2', (NAN,), REAL),
  (SmoothedLossRule, 'k', (0,), COUNT),
  (SmoothedLossRule, 'm', (1.5,), COUNT),
  *(
    (Progress, f.name, (-0.1, NAN, INF, 'much', True), right)
    for f in dataclasses.fields(Progress)
    for right in [UNIT if f.name == 'min_share' else NOT_NEGATIVE]
  ),
  (TimeHorizon, 'slack', (-0.1, NAN, INF), NOT_NEGATIVE),
  (TimeHorizon, 'margin', (-0.1, 1.1, NAN, INF), UNIT),
  (Race, 'peaks', ((1.0,), 3.0), FACTORS),
  (Race, 'min_loss_drop', (INF,), REAL),
  (Race, 'min_progress', (NAN,), REAL),
)


@pytest.mark.parametrize(('kind', 'field', 'values', 'right'), REFUSED)
def test_settings_that_are_refused(kind, field, values, right):
  said = f'^{field}=.*{field} must be {re.escape(right)}'
  for value in values:
    with pytest.raises(ValueError, match=said):
      kind(**{field: value})


def test_every_field_is_checked():
  checked = {(getattr(k, 'func', k), field) for k, field, *_ in REFUSED}
  assert checked == {
    (kind, field.name)
    for kind in {kind for kind, _ in checked}
    for field in dataclasses.fields(kind)
  }
  with pytest.raises(ValueError, match=r'^peaks\[1\]=0.0: .* in \(0, inf\)'):
    Race(peaks=(1.0, 0.0))


def test_hyperparameters_at_their_bounds():
  Hparams(dropout_rate=None, grad_clip=None, one_minus_beta1=1.0, beta2=0.0)
  Hparams(dropout_rate=0.0, weight_decay=0.0, warmup_factor=1.0)


def hparams_cycle(**changes):
  return Cycle(Hparams(**changes))


@pytest.mark.parametrize(
  ('name', 'value'),
  (('dropout_rate', 0.2), ('label_smoothing', 0.1), ('grad_clip', 1.0)),
)
def test_what_a_compiled_step_is_made_with_is_the_same_in_all_cycles(
  name, value
):
  with pytest.raises(ValueError, match=f'^{name}=.* the same in all cycles'):
    params_with(cycles=(Cycle(), hparams_cycle(**{name: value})))
  params_with(cycles=(hparams_cycle(**{name: value}),) * 2)


def test_the_average_of_schedule_free_has_one_b1_above_0():
  other = (Cycle(), hparams_cycle(one_minus_beta1=0.5))
  params_with(cycles=other)
  free = ScheduleFreeAdamW()
  with pytest.raises(ValueError, match='^one_minus_beta1=.* the same in all'):
    params_with(cycles=other, optimizer=free)
  all_new = (hparams_cycle(one_minus_beta1=1.0),)
  params_with(cycles=all_new)
  with pytest.raises(ValueError, match='^one_minus_beta1=1.0: .* below 1'):
    params_with(cycles=all_new, optimizer=free)


def test_an_override():
  cycles = (hparams_cycle(learning_rate=0.5), hparams_cycle(learning_rate=0.25))
  params = params_with(cycles=cycles, budget_factor=1.5)
  found = params.override({'learning_rate': 0.125, 'beta2': 0.5})
  # A learning rate is the first cycle's; the others keep their ratio.
  assert [c.hparams.learning_rate for c in found.cycles] == [0.125, 0.0625]
  assert [c.hparams.beta2 for c in found.cycles] == [0.5, 0.5]
  assert found.budget_factor == 1.5
  assert params.override(None) is params and params.override({}) is params
  with pytest.raises(ValueError, match='^learning_rate=-1.0'):
    params.override({'learning_rate': -1.0})
  with pytest.raises(
    ValueError, match='beta3: unknown hyperparameter; known are dropout_rate, '
  ):
    params.override({'beta3': 0.9})


def test_the_lists_of_the_thesis():
  cycles = chain_of_lists(
    alter_lr=(0.0, 0.001),
    alter_warmup=(0.0, 0.18),
    warmups=(LinearWarmup(), LinearWarmup(0.5)),
    decays=(Cosine(), Constant()),
  )
  base = Hparams().learning_rate
  assert [c.hparams.learning_rate for c in cycles] == [base, base + 0.001]
  # .02 + .18 in decimals
  assert [c.hparams.warmup_factor for c in cycles] == [0.02, 0.2]
  assert [c.warmup for c in cycles] == [LinearWarmup(), LinearWarmup(0.5)]
  assert [c.decay for c in cycles] == [Cosine(), Constant()]
  assert {c.length for c in cycles} == {1.0}
  with pytest.raises(ValueError, match='one entry per cycle.* have 2, 3, 3, 3'):
    chain_of_lists(alter_lr=(0.0, 0.0))
  with pytest.raises(ValueError, match='^learning_rate=-'):
    chain_of_lists(alter_lr=(0.0, 0.0, -1.0))


def test_settings_are_values():
  with pytest.raises(dataclasses.FrozenInstanceError):
    THESIS.wait = True
  assert params_with(cycles=[Cycle()] * 3) == THESIS
  assert SCHEDULE_PARAMS is SOFT_RESET


# Every setting changes some run.

DECIDED = dataclasses.replace(
  PARAMS, switching=SmoothedLossRule(eps1=0.2, eps2=0.05, k=2, m=2)
)


def decisions(params):
  """Events of a run with evaluations every 5 steps and 10 seconds."""
  config = config_of(params, 50, budget=400.0)
  losses = (4.0, 3.0, 3.1, 3.0, 3.2, 2.5, 2.8, 2.6) * 3
  metrics = [0.1, 0.3, 0.4, 0.42, 0.5, 0.48, 0.6, 0.61] * 3
  seen = [
    (1 + 5 * i + i % 3, loss, metric, 30.0 + 10 * i + i % 2)
    for i, (loss, metric) in enumerate(zip(losses, metrics))
  ]
  # A pace that has wavered by more than half.
  seen[4] = (*seen[4][:3], seen[4][3] + 6.0)
  events, decision, local = replay(config, 50, seen, until=119)
  return repr((events, decision.control, local))


# The smoothed loss is 4, 3, 3.1: 3.1 + m * .1 against 3 + .25.
AHEAD = dataclasses.replace(
  PARAMS, switching=SmoothedLossRule(lam=1.0, eps1=9.0, eps2=0.25, k=1, m=2)
)
PROGRESS = dataclasses.replace(
  DECIDED,
  switching=Progress(0.3, margin=0.1, noise=0.5, decay=0.3, trend=0.1),
)
TIMED = dataclasses.replace(DECIDED, horizon=TimeHorizon(), policy=Repeat())
RACING = dataclasses.replace(
  DECIDED,
  policy=Race(min_loss_drop=0.25, min_progress=0.35),
  early_switching=False,
)
WARM = with_hparams(PARAMS, warmup_factor=0.3)
FREE = dataclasses.replace(WARM, optimizer=ScheduleFreeAdamW())
LONG = dataclasses.replace(WARM.cycles[0], length=3.0)
UNEVEN = dataclasses.replace(WARM, cycles=(LONG, *WARM.cycles))


def numbers(params):
  """Those of every planned step: rate, weight decay, betas, eps and limit."""
  cycles, found = params.chain(6).cycles, []
  for i, cycle in enumerate(cycles):
    clock = anchored_clock(0, i, 0.0, cycle.steps, cycle.steps)
    for step in range(cycle.steps):
      now = clock._replace(count=np.int32(step))
      found.append([repr(x) for x in numbers_at(now, cycles)])
  return found


def weights(params):
  """A part of the model after four steps."""
  driver = new_driver(params, evaluations={})
  driver.run(until=4)
  return devices_of(driver).get(driver.params)['kernel'].tolist()


def dropout(params):
  """The rates that the model is called with."""
  seen = []

  class Seeing(fake_benchmark.TinyWorkload):
    def model_fn(self, *args, dropout_rate=0.0, **named):
      seen.append(dropout_rate)
      return super().model_fn(*args, **named)

  newly_set_up(params, Seeing(6), {}).step()
  assert set(seen) == {params.cycles[0].hparams.dropout_rate}
  return set(seen)


# What is looked at, settings, a part of them, and fields that are changed alone.
CHANGES = (
  (decisions, DECIDED, None, {'budget_factor': 1.5, 'early_switching': False}),
  (decisions, DECIDED, None, {'switching': Progress(), 'policy': Race()}),
  (decisions, DECIDED, None, {'horizon': TimeHorizon(), 'wait': True}),
  (decisions, DECIDED, None, {'reset': Cyclic()}),
  (decisions, DECIDED, 'switching', {'lam': 0.4, 'eps1': 1.0}),
  (decisions, DECIDED, 'switching', {'eps2': 1.0, 'k': 1}),
  (decisions, AHEAD, 'switching', {'m': 1}),
  (decisions, PROGRESS, 'switching', {'min_share': 0.9, 'margin': 0.5}),
  (decisions, PROGRESS, 'switching', {'noise': 9.0, 'decay': 0.9}),
  (decisions, PROGRESS, 'switching', {'trend': 5.0, 'max_loss_drop': 0.0}),
  (decisions, TIMED, 'horizon', {'slack': 2.0, 'margin': 0.9}),
  (decisions, DECIDED, 'reset', {'alpha': 0.9}),
  (decisions, RACING, 'policy', {'peaks': (1.0, 3.0), 'min_loss_drop': 9.0}),
  (decisions, RACING, 'policy', {'min_progress': 0.0}),
  (numbers, WARM, None, {'cycles': WARM.cycles[:1]}),
  (numbers, WARM, 'cycles', {'hparams': Hparams(), 'min_warmup_steps': 3}),
  (numbers, WARM, 'cycles', {'warmup': LinearWarmup(start=0.5)}),
  (numbers, WARM, 'cycles', {'decay': Constant()}),
  (numbers, WARM, 'cycles', {'weight_decay_shape': Cosine()}),
  (numbers, UNEVEN, 'cycles', {'length': 1.0}),
  (numbers, WARM, 'hparams', {'learning_rate': 0.01, 'one_minus_beta1': 0.5}),
  (numbers, WARM, 'hparams', {'beta2': 0.5, 'eps': 0.5, 'grad_clip': 0.01}),
  (numbers, WARM, 'hparams', {'weight_decay': 0.9, 'warmup_factor': 0.5}),
  (weights, WARM, None, {'optimizer': NadamW()}),
  (weights, WARM, 'hparams', {'label_smoothing': 0.5}),
  (weights, FREE, 'optimizer', {'r': 2.0, 'weight_lr_power': 0.0}),
  (dropout, PARAMS, 'hparams', {'dropout_rate': 0.5}),
)


def with_part(params, name, changes):
  if name == 'hparams':
    return with_hparams(params, **changes)
  if name == 'cycles':
    return with_cycles(params, **changes)
  if name is not None:
    part = dataclasses.replace(getattr(params, name), **changes)
    changes = {name: part}
  return dataclasses.replace(params, **changes)


@pytest.mark.parametrize(('look', 'params', 'name', 'changes'), CHANGES)
def test_every_setting_changes_a_run(look, params, name, changes):
  before = look(params)
  for field, value in changes.items():
    changed = with_part(params, name, {field: value})
    assert look(changed) != before, field


def test_no_setting_is_missing_above():
  def kind(params, name):
    kinds = {None: ScheduleParams, 'cycles': Cycle, 'hparams': Hparams}
    return kinds.get(name) or type(getattr(params, name))

  known = {(kind(p, name), f) for _, p, name, fs in CHANGES for f in fs}
  known |= {(SoftReset, 'scale')}  # tests/core/test_control.py
  classes = (ScheduleParams, Cycle, Hparams, SoftReset, SmoothedLossRule)
  classes += (Progress, TimeHorizon, Race, ScheduleFreeAdamW)
  classes += (StepHorizon, Finish, Repeat, AdamW, NadamW, Cyclic)
  assert known == {
    (cls, field.name) for cls in classes for field in dataclasses.fields(cls)
  }

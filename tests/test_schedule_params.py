"""The settings: what is refused, what an override does, what each changes."""

import dataclasses
import functools
import math
import operator
import re

import jax.numpy as jnp
import pytest

from helpers import fake_benchmark
from helpers.replay import EASY, config_of, replay
from helpers.runs import PARAMS, devices_of, new_driver, newly_set_up
from reset_cycles.core.checks import replaced_at
from reset_cycles.core.forms import TABLE
from reset_cycles.core.horizon import TimeHorizon
from reset_cycles.core.schedules import Cooldown, Cosine, Cycle, LinearWarmup
from reset_cycles.early_switching import (
  COLUMNS,
  AnyOf,
  ChainLossRule,
  Progress,
  SmoothedLossRule,
)
from reset_cycles.optimizers.adamw import AdamW, Rms, RmsW
from reset_cycles.optimizers.average import Averaged
from reset_cycles.optimizers.muon import Muon
from reset_cycles.optimizers.peaks import RelativePeak, SpectralPeak
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)
from reset_cycles.optimizers.step import Step
from reset_cycles.schedule_params import (
  MUON,
  SCHEDULE_PARAMS,
  SOFT_RESET,
  THESIS,
  ScheduleParams,
)
from reset_cycles.soft_reset import Cyclic, SoftReset
from reset_cycles.views.planned_runs import PlannedRun, planned_rates

UNIT, SHARE = 'a number in [0, 1]', 'a number in [0, 1)'
POSITIVE, REAL = 'a number in (0, inf)', 'a number in (-inf, inf)'
NOT_NEGATIVE, COUNT = 'a number in [0, inf)', 'a whole number of at least 1'
CYCLES, SHAPE = 'a tuple of one or more Cycles', 'a shape such as Cosine()'
RELATIVE = 'an object such as RelativePeak()'
DIRECTION = 'a direction that the rate is applied to, such as Rms()'
AVERAGED = 'an optimizer whose trained weights are evaluated, such as AdamW()'
NAN, INF = math.nan, math.inf
averaged = functools.partial(Averaged, AdamW())
params_with = functools.partial(ScheduleParams, **vars(THESIS))
REFUSED = (
  (params_with, 'cycles', ((), Cycle(), (Cycle(), 'cosine')), CYCLES),
  (params_with, 'optimizer', ('adamw', AdamW), 'an object such as AdamW()'),
  (params_with, 'budget_factor', (0.0, INF), POSITIVE),
  (params_with, 'reset', ('soft', SoftReset), 'an object such as SoftReset()'),
  (params_with, 'switching', (None,), 'an object such as Progress()'),
  (params_with, 'early_switching', (1,), 'True or False'),
  (params_with, 'repeat', (None, 'last'), 'True or False'),
  (params_with, 'relative_peak', (RelativePeak, Cycle()), RELATIVE),
  (params_with, 'horizon', ('time',), 'an object such as TimeHorizon()'),
  (params_with, 'dropout_rate', (-0.1, 1.0, NAN, 'much'), SHARE),
  (params_with, 'label_smoothing', (-0.1, 1.0, 'much'), SHARE),
  (Cycle, 'peak', (0.0, -1.0, INF, None, 'much'), POSITIVE),
  (Cycle, 'length', (0.0, INF), POSITIVE),
  (Cycle, 'warmup_factor', (-0.1, 1.1, 'much'), UNIT),
  (Cycle, 'warmup', ('linear', LinearWarmup), SHAPE),
  (Cycle, 'decay', (None, Cosine), SHAPE),
  (Cycle, 'weight_decay', (None, 0.5), SHAPE),
  (LinearWarmup, 'start', (-0.1, 1.0), SHARE),
  (Cosine, 'floor', (1.0, NAN), SHARE),
  (Cooldown, 'share', (0.0, 1.1), 'a number in (0, 1]'),
  (Cooldown, 'floor', (-0.1, 1.0), SHARE),
  (AdamW, 'one_minus_beta1', (0.0, 1.1, 'much'), 'a number in (0, 1]'),
  *((kind, 'beta2', (-0.1, 1.0, 'm'), SHARE) for kind in (AdamW, Rms, RmsW)),
  *((kind, 'eps', (0.0, INF, 'm'), POSITIVE) for kind in (AdamW, Rms, RmsW)),
  *(
    (kind, field, values, right)
    for kind in (AdamW, RmsW, Muon)
    for field, values, right in (
      ('weight_decay', (-0.1, INF, '0'), NOT_NEGATIVE),
      ('grad_clip', (0.0, -1.0, NAN, 'much'), POSITIVE),
    )
  ),
  (Muon, 'momentum', (-0.1, 1.0, NAN), SHARE),
  (Muon, 'growth_start', (0.0, -1.0, INF, 'm'), 'a number in [1, inf)'),
  (Muon, 'fall_start', (0.0, -1.0, INF, 'm'), 'a number in [1, inf)'),
  (Muon, 'least_norm', (0.0, -1.0, INF, 'm'), POSITIVE),
  (Muon, 'coherence', (-0.1, INF, '1'), NOT_NEGATIVE),
  (Muon, 'decay_lr_power', (-0.1, INF, '1'), NOT_NEGATIVE),
  (Muon, 'rest', ('adam', Rms, AdamW(), SoftReset()), DIRECTION),
  (Muon, 'rest_share', (-0.1, 1.1, NAN), UNIT),
  (Averaged, 'inner', ('adamw', AdamW, Averaged(AdamW())), AVERAGED),
  (averaged, 'one_minus_beta1', (0.0, 1.1, 'm'), 'a number in (0, 1]'),
  (averaged, 'r', (-0.1, NAN), NOT_NEGATIVE),
  (averaged, 'weight_lr_power', (-0.1, NAN), NOT_NEGATIVE),
  (averaged, 'keep', (-0.1, 1.1, NAN), UNIT),
  (SoftReset, 'alpha', (-0.1, 1.5, NAN), UNIT),
  (SoftReset, 'scale', ('logg',), 'one of log, linear. Did you mean log?'),
  (SoftReset, 'fade', (-0.1, NAN, INF), NOT_NEGATIVE),
  (SoftReset, 'expected', (0.5, LinearWarmup), SHAPE),
  (SmoothedLossRule, 'lam', (0.0, 1.1), 'a number in (0, 1]'),
  (SmoothedLossRule, 'eps1', (INF,), REAL),
  (SmoothedLossRule, 'eps2', (NAN,), REAL),
  (SmoothedLossRule, 'k', (0,), COUNT),
  (SmoothedLossRule, 'm', (1.5,), COUNT),
  *(
    (ChainLossRule, name, (0.0, 1.1, NAN, 'much'), 'a number in (0, 1]')
    for name in ('lam', 'k')
  ),
  (AnyOf, 'rules', ((), (Progress(),), Progress()), 'a tuple of two or more'),
  *(
    (Progress, f.name, (-0.1, NAN, INF, 'much', True), right)
    for f in dataclasses.fields(Progress)
    for right in [
      'a number in (0, 1]' if f.name == 'min_share' else NOT_NEGATIVE
    ]
  ),
  (TimeHorizon, 'slack', (-0.1, NAN, INF), NOT_NEGATIVE),
  (TimeHorizon, 'margin', (-0.1, 1.1, NAN, INF), UNIT),
  *(
    (kind, 'share', (0.0, -1.0, INF, NAN, 'much'), POSITIVE)
    for kind in (RelativePeak, SpectralPeak)
  ),
  (SpectralPeak, 'whole', (0.0, -1.0, INF, NAN, 'all'), POSITIVE),
)


@pytest.mark.parametrize(
  ('kind', 'field', 'values', 'right'),
  REFUSED,
  ids=[f'{getattr(k, "func", k).__name__}.{field}' for k, field, *_ in REFUSED],
)
def test_settings_that_are_refused(kind, field, values, right):
  said = f'^{field}=.*: must be {re.escape(right)}'
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


class Named(SmoothedLossRule):
  """A rule of one's own, with a column that every run has."""

  columns = ('own', 'metric_step')


@pytest.mark.parametrize('rule', (Named(), AnyOf((Named(), EASY))))
def test_a_rule_with_a_column_that_every_run_has(rule):
  said = (
    'must be a rule whose columns have other names than metric_step; every run '
    f'has the columns {", ".join(COLUMNS)}.'
  )
  with pytest.raises(ValueError, match=f'^switching=.*: {re.escape(said)}$'):
    params_with(switching=rule)


def test_settings_are_values():
  with pytest.raises(dataclasses.FrozenInstanceError):
    THESIS.repeat = True
  assert params_with(cycles=[Cycle()] * 3) == THESIS
  assert hash(THESIS) != hash(SOFT_RESET)
  assert SCHEDULE_PARAMS is MUON


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
  # An interval that has wavered by more than half.
  seen[4] = (*seen[4][:3], seen[4][3] + 6.0)
  events, after, local = replay(config, 50, seen, until=119)
  return repr((events, after.control, local))


# The smoothed loss is 4, 3, 3.1: 3.1 + m * .1 against 3 + .25.
AHEAD = dataclasses.replace(
  PARAMS, switching=SmoothedLossRule(lam=1.0, eps1=9.0, eps2=0.25, k=1, m=2)
)
PROGRESS = dataclasses.replace(
  DECIDED, switching=Progress(0.3, margin=0.1, gain=0.3)
)
BY_LOSS = dataclasses.replace(DECIDED, switching=ChainLossRule(k=0.1))
JOINED = dataclasses.replace(
  DECIDED, switching=AnyOf((BY_LOSS.switching, PROGRESS.switching))
)
TIMED = dataclasses.replace(DECIDED, horizon=TimeHorizon(), repeat=True)
RELATIVE_PEAK = dataclasses.replace(PARAMS, relative_peak=RelativePeak())
WARM = dataclasses.replace(PARAMS, cycles=(Cycle(warmup_factor=0.3),) * 2)
UNEVEN = dataclasses.replace(
  WARM, cycles=(Cycle(warmup_factor=0.3, length=3.0), *WARM.cycles)
)
FREE = dataclasses.replace(PARAMS, optimizer=ScheduleFreeAdamW())
MUON_FREE = dataclasses.replace(PARAMS, optimizer=ScheduleFreeMuon())
SPECTRAL = dataclasses.replace(MUON_FREE, relative_peak=SpectralPeak())


def rates(params):
  """Those of every planned step."""
  return planned_rates(PlannedRun(6, params)).tolist()


def weights(params, start=(1.0, -2.0), forms=None):
  """Two weights after three steps of the optimizer, at rates that rise."""
  x = jnp.array(start)
  state = params.optimizer.build(Step(0.1, forms=forms)).init(x)
  for taken, (rate, push) in enumerate(((0.1, 1.0), (0.2, -3.0), (0.3, 2.0))):
    grad = push + params.optimizer.gradient_point(state, x)
    step = params.optimizer.build(Step(rate, taken=taken, forms=forms))
    updates, state = step.update(grad, state, x)
    x = x + updates
  return x.tolist()


def matrix(params):
  """The same of a matrix of two rows and three columns."""
  return weights(params, ((1.0, -2.0, 0.5), (0.25, 0.75, -1.0)))


def table(params):
  """The same of two rows that are looked up."""
  return weights(params, forms=(TABLE,))


def trained(params):
  """A part of the model after four steps, which are two epochs."""
  driver = new_driver(params, evaluations={})
  driver.workload.num_train_examples = 2 * fake_benchmark.BATCH_SIZE
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
  assert set(seen) == {params.dropout_rate}
  return set(seen)


# What is looked at, settings, a part of them, and fields that are changed alone.
CHANGES = (
  (decisions, DECIDED, None, {'budget_factor': 1.5, 'early_switching': False}),
  (decisions, DECIDED, None, {'switching': Progress(), 'repeat': True}),
  (decisions, DECIDED, None, {'horizon': TimeHorizon(), 'reset': Cyclic()}),
  (decisions, DECIDED, 'switching', {'lam': 0.4, 'eps1': 1.0}),
  (decisions, DECIDED, 'switching', {'eps2': 1.0, 'k': 1}),
  (decisions, AHEAD, 'switching', {'m': 1}),
  (decisions, PROGRESS, 'switching', {'min_share': 0.9, 'margin': 0.5}),
  (decisions, PROGRESS, 'switching', {'gain': 0.9, 'window': 0.9}),
  (decisions, BY_LOSS, 'switching', {'lam': 0.1, 'k': 0.9}),
  (decisions, JOINED, 'switching', {'rules': JOINED.switching.rules[::-1]}),
  (decisions, TIMED, 'horizon', {'slack': 2.0, 'margin': 0.9}),
  (decisions, DECIDED, 'reset', {'alpha': 0.9, 'fade': 1.0}),
  (decisions, DECIDED, 'reset', {'expected': LinearWarmup()}),
  (trained, PARAMS, None, {'relative_peak': RelativePeak()}),
  (trained, RELATIVE_PEAK, 'relative_peak', {'share': 0.5}),
  (trained, SPECTRAL, 'relative_peak', {'share': 0.5, 'whole': 1.0}),
  (trained, SPECTRAL, 'optimizer.inner', {'least_norm': 50.0}),
  (rates, WARM, None, {'cycles': WARM.cycles[:1]}),
  (rates, WARM, 'cycles', {'peak': 0.01}),
  (rates, WARM, 'cycles', {'warmup_factor': 0.5, 'decay': Cooldown()}),
  (rates, WARM, 'cycles', {'decay': Cooldown(floor=0.5)}),
  (rates, WARM, 'cycles', {'warmup': LinearWarmup(start=0.5)}),
  (trained, WARM, 'cycles', {'weight_decay': Cosine()}),
  (rates, UNEVEN, 'cycles', {'length': 1.0}),
  (weights, PARAMS, None, {'optimizer': ScheduleFreeAdamW()}),
  (weights, PARAMS, 'optimizer', {'one_minus_beta1': 0.5, 'beta2': 0.5}),
  (weights, PARAMS, 'optimizer', {'weight_decay': 0.9, 'eps': 0.5}),
  (weights, PARAMS, 'optimizer', {'grad_clip': 1.0}),
  (weights, FREE, 'optimizer', {'one_minus_beta1': 0.5, 'r': 2.0}),
  (weights, FREE, 'optimizer', {'weight_lr_power': 0.0, 'keep': 0.5}),
  (weights, FREE, 'optimizer', {'inner': AdamW()}),
  (weights, FREE, 'optimizer.inner', {'weight_decay': 0.9, 'eps': 0.5}),
  (weights, FREE, 'optimizer.inner', {'beta2': 0.5, 'grad_clip': 1.0}),
  (weights, MUON_FREE, 'optimizer.inner', {'rest_share': 0.9}),
  (weights, MUON_FREE, 'optimizer.inner', {'rest': Rms(0.5)}),
  (weights, MUON_FREE, 'optimizer.inner.rest', {'beta2': 0.5, 'eps': 0.5}),
  (matrix, MUON_FREE, 'optimizer.inner', {'weight_decay': 0.9}),
  (matrix, MUON_FREE, 'optimizer.inner', {'coherence': 0.5}),
  (matrix, MUON_FREE, 'optimizer.inner', {'growth_start': 1.0}),
  (table, MUON_FREE, 'optimizer.inner', {'fall_start': 1.0}),
  (matrix, MUON_FREE, 'optimizer.inner', {'decay_lr_power': 0.5}),
  (matrix, MUON_FREE, 'optimizer.inner', {'grad_clip': 1.0, 'momentum': 0.5}),
  (trained, PARAMS, None, {'label_smoothing': 0.5}),
  (dropout, PARAMS, None, {'dropout_rate': 0.5}),
)


def with_part(params, name, changes):
  for field, value in changes.items():
    path = field if name is None else f'{name}.{field}'
    params = replaced_at(params, path, value)
  return params


@pytest.mark.parametrize(
  ('look', 'params', 'name', 'changes'),
  CHANGES,
  ids=[f'{name or ""}-{"-".join(changes)}' for *_, name, changes in CHANGES],
)
def test_every_setting_changes_a_run(look, params, name, changes):
  before = look(params)
  for field, value in changes.items():
    changed = with_part(params, name, {field: value})
    assert look(changed) != before, field


def test_no_setting_is_missing_above():
  def kind(params, name):
    kinds = {None: ScheduleParams, 'cycles': Cycle}
    return kinds.get(name) or type(operator.attrgetter(name)(params))

  known = {(kind(p, name), f) for _, p, name, fs in CHANGES for f in fs}
  known |= {(SoftReset, 'scale')}  # the twin of tests/engine/test_control.py
  classes = (ScheduleParams, Cycle, SoftReset, SmoothedLossRule, Progress)
  classes += (ChainLossRule, AnyOf)
  classes += (TimeHorizon, RelativePeak, SpectralPeak, AdamW, Cyclic)
  classes += (Averaged, RmsW, Muon, Rms)
  assert known == {
    (cls, field.name) for cls in classes for field in dataclasses.fields(cls)
  }


def test_the_numbers_of_the_thesis():
  """The peak and AdamW's numbers are those of the benchmark's baseline.

  The thesis advises k = m > 5 and a lambda of .5 to .7.
  """
  peak = 0.0017486387539278373
  written = ScheduleParams(
    cycles=(Cycle(peak, warmup_factor=0.02, decay=Cosine()),) * 3,
    optimizer=AdamW(
      one_minus_beta1=0.06733926164,
      beta2=0.9955159689799007,
      weight_decay=0.08121616522670176,
    ),
    budget_factor=2.0,
    reset=SoftReset(alpha=0.5, expected=None),
    switching=SmoothedLossRule(lam=0.7, eps1=0.01, eps2=0.01, k=9, m=9),
    early_switching=True,
    repeat=False,
    relative_peak=None,
    horizon=None,
    dropout_rate=0.1,
  )
  assert written == THESIS


def test_soft_reset_has_the_numbers_that_the_pages_say():
  """A share of .06 of the weights' size; .02 of a cycle warm up, .1 fall."""
  shares = {(c.warmup_factor, c.decay.share) for c in SOFT_RESET.cycles}
  assert SOFT_RESET.optimizer == ScheduleFreeAdamW()
  assert SOFT_RESET.relative_peak == RelativePeak(0.06)
  assert shares == {(0.02, 0.1)}
  assert [c.length for c in SOFT_RESET.cycles] == [1.0, 2.0, 4.0, 8.0]


def test_the_settings_in_force_are_what_the_pages_say():
  """Soft resets between four cycles that double, and Muon inside them."""
  own = {
    'optimizer': SOFT_RESET.optimizer,
    'relative_peak': SOFT_RESET.relative_peak,
    'switching': dataclasses.replace(MUON.switching.rules[1], window=0.0),
    'cycles': tuple(
      dataclasses.replace(new, peak=old.peak)
      for new, old in zip(MUON.cycles, SOFT_RESET.cycles, strict=True)
    ),
  }
  assert dataclasses.replace(MUON, **own) == SOFT_RESET
  assert MUON.optimizer == ScheduleFreeMuon()
  rules = ChainLossRule(lam=0.7, k=0.2), Progress(window=0.06)
  assert MUON.switching == AnyOf(rules)
  assert MUON.reset == SoftReset(alpha=0.5, scale='linear', fade=2.0)
  assert MUON.repeat and MUON.early_switching
  # The rate is a step's spectral norm, and so is the size that it is a share of.
  assert isinstance(MUON.relative_peak, SpectralPeak)


def test_the_factor_on_the_weight_decay_of_a_cycle():
  """Its epochs, up to 1 / (5 * .3 * share); only beside a SpectralPeak."""
  found = [MUON.decay_factor(end, 240) for end in (120, 240, 1200)]
  assert found == [1.0, 1.0, 5.0]
  assert MUON.decay_factor(300, 1) == pytest.approx(1 / 0.24)
  assert MUON.follows_epochs and not SOFT_RESET.follows_epochs
  without = replaced_at(MUON, 'optimizer.inner.least_norm', None)
  assert not without.follows_epochs
  with pytest.raises(ValueError, match='or the optimizer has no least_norm'):
    without.decay_factor(900, 3)
  wrong = {'epochs_factor': lambda self, epochs, share: math.nan}
  own = type('Own', (Muon,), wrong)(least_norm=1.0)
  with pytest.raises(
    ValueError, match=r'Own.epochs_factor=nan: .* in \[1, inf'
  ):
    dataclasses.replace(MUON, optimizer=own).decay_factor(900, 3)
  with pytest.raises(ValueError, match='steps_per_epoch=3: must be None where'):
    SOFT_RESET.decay_factor(900, 3)

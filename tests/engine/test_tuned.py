"""The benchmark's hyperparameters in place of settings."""

import collections
import dataclasses

import numpy as np
import pytest

from reset_cycles.early_switching import AnyOf, ChainLossRule, Progress
from reset_cycles.engine.tuned import tuned, with_peak
from reset_cycles.optimizers.adamw import AdamW
from reset_cycles.optimizers.average import EMA
from reset_cycles.optimizers.schedule_free import (
  ScheduleFreeAdamW,
  ScheduleFreeMuon,
)
from reset_cycles.schedule_params import (
  MUON,
  SCHEDULE_PARAMS,
  SOFT_RESET,
  THESIS,
  Cycle,
)
from reset_cycles.soft_reset import Cyclic

replace = dataclasses.replace

# THESIS with other ratios of the peaks, as in figure 3.3a.
RATIOS = replace(THESIS, cycles=(Cycle(0.002), Cycle(0.004), Cycle(0.001)))


def at(path, value):
  """SOFT_RESET with another value in one of its parts."""
  part, field = path
  old = getattr(SOFT_RESET, part)
  return replace(SOFT_RESET, **{part: replace(old, **{field: value})})


def free(**changes):
  """SOFT_RESET with other numbers in its optimizer."""
  return replace(SOFT_RESET, optimizer=ScheduleFreeAdamW(**changes))


def test_without_hyperparameters_the_settings_stay():
  nothing = collections.namedtuple('Hyperparameters', ())()
  for hyperparameters in (None, {}, nothing):
    assert tuned(SOFT_RESET, hyperparameters) is SOFT_RESET


@pytest.mark.parametrize(
  ('name', 'value', 'expected'),
  (
    ('one_minus_beta1', 0.2, free(one_minus_beta1=0.2)),
    ('beta2', 0.9, free(beta2=0.9)),
    ('weight_decay', 0.0, free(weight_decay=0.0)),
    ('alpha', 1.0, at(('reset', 'alpha'), 1.0)),
    ('optimizer__eps', 1e-6, free(eps=1e-6)),
    ('reset__fade', 1.5, at(('reset', 'fade'), 1.5)),
    ('relative_peak__share', 0.1, at(('relative_peak', 'share'), 0.1)),
    ('dropout_rate', 0.1, replace(SOFT_RESET, dropout_rate=0.1)),
    ('label_smoothing', 0.2, replace(SOFT_RESET, label_smoothing=0.2)),
    ('early_switching', False, replace(SOFT_RESET, early_switching=False)),
    ('switching__window', 0.1, at(('switching', 'window'), 0.1)),
    (
      'warmup_factor',
      0.05,
      replace(
        SOFT_RESET,
        cycles=tuple(replace(c, warmup_factor=0.05) for c in SOFT_RESET.cycles),
      ),
    ),
  ),
)
def test_a_name_means_a_field(name, value, expected):
  given = collections.namedtuple('Hyperparameters', name)(value)
  assert tuned(SOFT_RESET, given) == expected != SOFT_RESET
  assert tuned(SOFT_RESET, {name: value}) == expected


def test_a_field_of_joined_rules_is_that_of_the_first_that_has_it():
  joined = lambda **fields: replace(
    SOFT_RESET,
    switching=AnyOf((ChainLossRule(), Progress(**fields))),
  )
  assert tuned(joined(), {'switching__window': 0.1}) == joined(window=0.1)
  with pytest.raises(ValueError, match='switching__windo.*no such field'):
    tuned(joined(), {'switching__windo': 0.1})


def test_a_field_of_an_optimizer_inside_an_average():
  averaged = replace(THESIS, optimizer=EMA(AdamW()))
  found = tuned(averaged, {'weight_decay': 0.3, 'optimizer__keep': 0.9})
  assert found.optimizer == EMA(AdamW(weight_decay=0.3), decay=0.9)


def test_a_field_of_what_steps_the_rest():
  """And the weight decay is that of all, the momentum that of matrices."""
  given = {'beta2': 0.9, 'weight_decay': 0.3, 'optimizer__momentum': 0.5}
  found = tuned(MUON, {**given, 'one_minus_beta1': 0.25})
  own = ScheduleFreeMuon(0.25, 0.9, weight_decay=0.3, momentum=0.5)
  assert found == replace(MUON, optimizer=own)


def test_a_learning_rate_is_the_first_peak_to_the_last_bit():
  for peak in np.linspace(0.001, 0.7, 500).tolist():
    assert tuned(RATIOS, {'learning_rate': peak}).cycles[0].peak == peak


def test_a_learning_rate_is_the_first_peak_and_the_others_keep_their_ratios():
  found = tuned(RATIOS, {'learning_rate': 0.01})
  assert [c.peak for c in found.cycles] == pytest.approx([0.01, 0.02, 0.005])
  assert found == with_peak(RATIOS, 0.01)
  peaks = [c.peak for c in with_peak(SCHEDULE_PARAMS, 0.1).cycles]
  assert peaks == pytest.approx([0.1] * 4)
  assert replace(found, cycles=RATIOS.cycles) == RATIOS
  found = tuned(RATIOS, {'cycles__peak': 0.01})
  assert [c.peak for c in found.cycles] == [0.01] * 3
  given = {'learning_rate': 0.01, 'relative_peak': None}
  found = tuned(SOFT_RESET, given)
  assert [c.peak for c in found.cycles] == [0.01] * 4


@pytest.mark.parametrize(
  ('settings', 'hyperparameters', 'message'),
  (
    (
      THESIS,
      {'learning_rat': 1.0},
      'learning_rat=1.0: must be one of learning_',
    ),
    (THESIS, {'learning_rat': 1.0}, 'Did you mean learning_rate?'),
    (
      THESIS,
      {'learning_rate': -1.0},
      'learning_rate: peak=-1.0: must be a num',
    ),
    (THESIS, {'beta2': 1.5}, 'hyperparameter beta2: optimizer.beta2=1.5: must'),
    (THESIS, {'reset__fad': 1}, 'reset.fad=1: SoftReset has no such field'),
    (THESIS, {'horizon__slack': 1.0}, 'horizon is None in these settings.'),
    (
      replace(THESIS, reset=Cyclic()),
      {'alpha': 0.5},
      'hyperparameter alpha: reset.alpha=0.5: Cyclic has no such field',
    ),
    (SOFT_RESET, {'learning_rate': 0.1}, 'no effect; relative_peak replaces'),
    (SOFT_RESET, {'cycles__peak': 0.1}, 'give relative_peak__share.'),
    (
      MUON,
      {'relative_peak': None, 'optimizer__least_norm': 2.0},
      'no effect; the weight decay follows the epochs beside a SpectralPeak',
    ),
    (
      replace(THESIS, early_switching=False),
      {'switching__lam': 0.5},
      'switching__lam=0.5: no effect; its verdicts are only logged',
    ),
    (
      replace(THESIS, cycles=(Cycle(),)),
      {'alpha': 0.7},
      'alpha=0.7: no effect; no cycle follows the only one, so give repeat.',
    ),
    (
      THESIS,
      {'alpha': 0.7, 'reset__alpha': 0.5},
      'reset__alpha=0.5: it is reset.alpha, and alpha is reset.alpha; leave o',
    ),
    (
      SOFT_RESET,
      {'relative_peak__share': 0.05, 'relative_peak': None},
      'relative_peak=None: it is relative_peak, and relative_peak__share is ',
    ),
    (
      SOFT_RESET,
      {'optimizer': AdamW(), 'weight_decay': 0.3},
      'weight_decay=0.3: it is optimizer.inner.weight_decay, and optimizer is optim',
    ),
    (THESIS, {'reset.alpha': 0.5}, 'reset.alpha=0.5: must be one of learning'),
    (THESIS, {'cycles[0].peak': 0.5}, 'cycles[0].peak=0.5: must be one of'),
    (THESIS, {'cycles__length': 2.0}, 'no effect; lengths are relative to'),
    (
      THESIS,
      {'relative_peak__share': 0.1},
      'relative_peak is None in these settings, so give learning_rate.',
    ),
    (THESIS, [], 'hyperparameters=[]: must be a namedtuple or a mapping'),
    (THESIS, 3, 'hyperparameters=3: must be a namedtuple or a mapping'),
  ),
)
def test_what_is_refused_is_named(settings, hyperparameters, message):
  with pytest.raises(ValueError) as caught:
    tuned(settings, hyperparameters)
  assert message in str(caught.value)

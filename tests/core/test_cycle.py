"""Shapes, hyperparameters and cycles as they are written."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from helpers.curves import read
from reset_cycles.core.cycle import (
  Cooldown,
  Cosine,
  Cycle,
  Hparams,
  LinearWarmup,
  Phase,
  as_written,
  scaled,
)
from reset_cycles.parts.shapes import Constant

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
  ('shape', 'steps', 'values'),
  (
    (LinearWarmup(), 4, {-1: 0, 0: 0, 1: 0.25, 3: 0.75, 4: 1, 9: 1}),
    (LinearWarmup(start=0.5), 4, {0: 0.5, 1: 0.625, 2: 0.75, 4: 1, 9: 1}),
    # (1 + cos(pi t / 6)) / 2: at thirds, 3/4 and 1/4.
    (Cosine(), 6, {-1: 1, 0: 1, 2: 0.75, 3: 0.5, 4: 0.25, 6: 0, 9: 0}),
    (Cosine(floor=0.2), 6, {0: 1, 3: 0.6, 6: 0.2, 9: 0.2}),
    # The last quarter of 8 steps is two.
    (Cooldown(0.25), 8, {0: 1, 5: 1, 6: 1, 7: 0.5, 8: 0, 9: 0}),
    (Cooldown(1.0), 4, {0: 1, 1: 0.75, 4: 0}),
    (Constant(), 6, {0: 1, 3: 1, 99: 1}),
  ),
)
def test_shapes_by_hand(shape, steps, values):
  found = read(shape.schedule(Phase(steps)), np.float32(list(values)))
  np.testing.assert_allclose(found, list(values.values()), atol=1e-7)


@pytest.mark.parametrize(
  ('shape', 'field', 'value', 'interval'),
  (
    (LinearWarmup, 'start', -0.1, r'\[0, 1\)'),
    (LinearWarmup, 'start', 1.0, r'\[0, 1\)'),
    (Cosine, 'floor', 1.0, r'\[0, 1\)'),
    (Cosine, 'floor', NAN, r'\[0, 1\)'),
    (Cooldown, 'share', 0.0, r'\(0, 1\]'),
    (Cooldown, 'share', 1.1, r'\(0, 1\]'),
  ),
)
def test_shapes_that_are_refused(shape, field, value, interval):
  with pytest.raises(ValueError, match=rf'^{field}=.*a number in {interval}'):
    shape(**{field: value})


def test_a_number_is_what_is_written():
  # Binary, .29 * 100 is 28.999999999999996.
  assert as_written(0.29) * 100 == 29
  assert as_written(1e-5) == Fraction(1, 100_000)
  assert as_written(2) == 2


def test_a_factor_beyond_float32_is_infinite():
  for factor, expected in ((3e38, 3e38), (4e38, INF), (-4e38, -INF)):
    found = scaled(factor, lambda count: np.float32(1))(0)
    assert np.float32(found) == np.float32(expected)


@pytest.mark.parametrize(
  ('field', 'values', 'interval'),
  (
    ('dropout_rate', (-0.1, 1.0, NAN), r'\[0, 1\)'),
    ('learning_rate', (0.0, -1.0, INF, None), r'\(0, inf\)'),
    ('one_minus_beta1', (0.0, 1.1), r'\(0, 1\]'),
    ('beta2', (-0.1, 1.0), r'\[0, 1\)'),
    ('weight_decay', (-0.1, INF, '0'), r'\[0, inf\)'),
    ('warmup_factor', (-0.1, 1.1), r'\[0, 1\]'),
    ('eps', (0.0, INF), r'\(0, inf\)'),
    ('grad_clip', (0.0, -1.0, NAN), r'\(0, inf\)'),
    ('label_smoothing', (-0.1, 1.0), r'\[0, 1\)'),
  ),
)
def test_hyperparameters_that_are_refused(field, values, interval):
  for value in values:
    with pytest.raises(
      ValueError, match=f'^{field}=.*{field} must be a number in {interval}'
    ):
      Hparams(**{field: value})


def test_hyperparameters_at_their_bounds():
  Hparams(dropout_rate=None, grad_clip=None, one_minus_beta1=1.0, beta2=0.0)
  Hparams(dropout_rate=0.0, weight_decay=0.0, warmup_factor=1.0)


def test_every_hyperparameter_is_checked():
  for field in dataclasses.fields(Hparams):
    with pytest.raises(ValueError, match=f'^{field.name}='):
      Hparams(**{field.name: 'much'})


@pytest.mark.parametrize(
  ('field', 'value', 'right'),
  (
    ('hparams', {'beta2': 0.9}, 'Hparams'),
    ('warmup', 'linear', r'a shape such as Cosine\(\)'),
    ('decay', None, r'a shape such as Cosine\(\)'),
    ('weight_decay_shape', 1.0, r'a shape such as Cosine\(\)'),
    ('length', 0.0, r'a number in \(0, inf\)'),
    ('length', INF, r'a number in \(0, inf\)'),
  ),
)
def test_cycles_that_are_refused(field, value, right):
  with pytest.raises(ValueError, match=f'^{field}=.*{field} must be {right}'):
    Cycle(**{field: value})

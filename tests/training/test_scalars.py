"""What goes to the benchmark's metrics logger."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reset_cycles.training import scalars


class Logger:
  def __init__(self):
    self.calls = []

  def append_scalar_metrics(self, metrics, global_step):
    self.calls.append((metrics, global_step))


class Writer:
  """In the place of the TensorBoard writer of the benchmark's logger."""

  def __init__(self):
    self.points = []

  def write_scalars(self, step, scalars):
    self.points.append((step, scalars))


class BenchmarkLogger(Logger):
  def __init__(self):
    super().__init__()
    self._tb_metric_writer = Writer()

  @property
  def steps(self):
    return [step for step, _ in self._tb_metric_writer.points]


def test_the_finite_numbers_of_events():
  logger = Logger()
  rows = [
    {'event': 'evaluation', 'cycle': 1, 'loss': 9.0, 'derivative': math.nan},
    {'event': 'reset', 'cycle': 2, 'tau': 0.25},
  ]
  scalars.log_scalars(logger, rows, {'loss': np.float32(0.5)}, 7)
  assert logger.calls == [({'cycle': 2.0, 'tau': 0.25, 'loss': 0.5}, 7)]


@pytest.mark.parametrize(
  ('since', 'until', 'horizon', 'expected'),
  [
    (0, 5, 499, [0, 1, 2, 3, 4]),
    (0, 5, 999, [0, 1, 2, 3, 4]),
    (0, 5, 1000, [0, 2, 4]),
    (1, 4, 1000, [2]),
    (4, 5, 1000, [4]),
    (5, 5, 1000, []),
    (5, 6, 1000, []),
    (2000, 2005, 1000, [2000, 2002, 2004]),  # beyond the plan
    (7, 8, 1, [7]),
  ],
)
def test_rates_on_a_fixed_grid(since, until, horizon, expected):
  logger = BenchmarkLogger()
  scalars.log_rates(logger, lambda step: step / 8, since, until, horizon)
  assert logger._tb_metric_writer.points == [
    (step, {'learning_rate': step / 8}) for step in expected
  ]
  assert logger.calls == []


@pytest.mark.parametrize('horizon', [500, 1234, 80_000, 266_666])
def test_about_500_points_however_the_run_is_evaluated(horizon):
  rng = np.random.default_rng(0)
  cuts = sorted({0, horizon, *rng.integers(0, horizon, 40).tolist()})
  logger, whole = BenchmarkLogger(), BenchmarkLogger()
  for since, until in zip(cuts, cuts[1:]):
    scalars.log_rates(logger, float, since, until, horizon)
  scalars.log_rates(whole, float, 0, horizon, horizon)
  assert logger.steps == whole.steps
  assert 500 <= len(whole.steps) < 1000
  assert len(set(np.diff(whole.steps))) == 1


def test_a_logger_without_tensorboard_gets_no_rates():
  logger = Logger()
  scalars.log_rates(logger, float, 0, 100, 100)
  assert logger.calls == []

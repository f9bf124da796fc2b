"""The peak in proportion to the weights, by hand, and what follows from it."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import fake_benchmark, runs
from helpers.replay import PEAK, make_params, of, replay
from reset_cycles.core.chain import jax_lr_schedule
from reset_cycles.core.forms import VECTOR, matrix
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.peaks import (
  RelativePeak,
  SpectralPeak,
  spectral_size,
)
from reset_cycles.optimizers.step import RunStart
from reset_cycles.schedule_params import MUON, SOFT_RESET
from reset_cycles.views import settings_json

KERNEL = np.float32([[3.0, 4.0], [0.0, 0.0]])  # rms 2.5


@pytest.mark.parametrize(
  ('params', 'size'),
  (
    ({'kernel': KERNEL}, 2.5),
    ({'kernel': -2 * KERNEL}, 5.0),
    # The geometric mean, in which every matrix counts alike.
    ({'a': KERNEL, 'b': 4 * np.ones((7, 5, 3), np.float32)}, math.sqrt(10.0)),
    # Vectors, numbers and zeros say nothing.
    ({'kernel': KERNEL, 'bias': np.ones(2), 'scale': np.float32(9)}, 2.5),
    ({'kernel': KERNEL, 'zeros': np.zeros((2, 2))}, 2.5),
    # A square of 1e-25 is 0 to a half or single precision.
    ({'kernel': 1e-25 * KERNEL}, 2.5e-25),
    ({'kernel': KERNEL.astype(np.float16)}, 2.5),
    ({'kernel': KERNEL, 'other': np.full((2, 2), np.inf)}, 2.5),
    ({'kernel': KERNEL, 'other': np.full((2, 2), np.nan)}, 2.5),
    ({'kernel': KERNEL, 'other': np.ones((0, 2))}, 2.5),
    ({'bias': np.ones(2)}, math.nan),
    ({'zeros': np.zeros((2, 2))}, math.nan),
    ({}, math.nan),
  ),
  ids=(
    *('one', 'scaled', 'two', 'vectors', 'zeros', 'tiny', 'half'),
    *('infinite', 'nan', 'no entry', 'only vectors', 'only zeros', 'empty'),
  ),
)
def test_the_peak_by_hand(params, size):
  found = RelativePeak(0.5).peak(RunStart(params))
  assert found == pytest.approx(0.5 * size, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
  ('first_peak', 'scale'),
  ((4 * PEAK, 4.0), (math.nan, 1.0), (math.inf, 1.0), (0.0, 1.0), (-1.0, 1.0)),
)
def test_all_peaks_are_scaled_by_one_factor(first_peak, scale):
  events, *_ = replay(make_params(), 12, {}, first_peak=first_peak)
  peaks = [PEAK, PEAK + 0.001, PEAK - 0.001]
  begun = [peak for _, peak in of(events, 'cycle_start', 'peak_value')]
  expected = [scale * peak for peak in peaks]
  np.testing.assert_allclose(begun, expected, rtol=1e-12)


# rms 2.5, of two rows: 2.5 sqrt(2).
WIDE = np.float32([[3.0, 4.0, 0.0], [0.0, 0.0, -5.0]]) * math.sqrt(0.75)
SPECTRAL_SIZE = 2.5 * math.sqrt(2.0)


@pytest.mark.parametrize(
  ('params', 'size'),
  (
    ({'kernel': WIDE}, SPECTRAL_SIZE),
    ({'kernel': -2 * WIDE}, 2 * SPECTRAL_SIZE),
    # Of three rows: in and out are not alike.
    ({'kernel': WIDE.T}, 2.5 * math.sqrt(3.0)),
    # A convolution has 3 * 3 * 16 inputs; attention 64, as its output has.
    ({'conv': np.full((3, 3, 16, 32), 0.5)}, 0.5 * 12.0),
    ({'query': np.full((64, 8, 8), 0.5)}, 0.5 * 8.0),
    ({'out': np.full((8, 8, 64), 0.5)}, 0.5 * 8.0),
    # The geometric mean, in which every matrix counts alike.
    ({'a': WIDE, 'b': np.full((8, 2), SPECTRAL_SIZE)}, SPECTRAL_SIZE * 8**0.25),
    # Vectors, a table of words, zeros and what is not finite say nothing.
    (
      {'kernel': WIDE, 'bias': np.ones(2), 'norm': np.ones((1, 9))},
      SPECTRAL_SIZE,
    ),
    ({'kernel': WIDE, 'table': np.ones((65_537, 2))}, SPECTRAL_SIZE),
    ({'kernel': WIDE, 'zeros': np.zeros((2, 2))}, SPECTRAL_SIZE),
    ({'kernel': WIDE, 'other': np.full((2, 2), np.nan)}, SPECTRAL_SIZE),
    ({'kernel': 1e-25 * WIDE}, 1e-25 * SPECTRAL_SIZE),
    ({'bias': np.ones(2)}, math.nan),
    ({}, math.nan),
  ),
  ids=(
    *('one', 'scaled', 'turned', 'convolution', 'query', 'out', 'two'),
    *('vectors', 'table', 'zeros', 'nan', 'tiny', 'no matrix', 'empty'),
  ),
)
def test_the_spectral_peak_by_hand(params, size):
  start = RunStart(params)
  found = SpectralPeak(0.5).peak(start)
  assert found == pytest.approx(0.5 * size, rel=1e-6, nan_ok=True)
  # In float32, as `schedule_free_muon` computes it.
  found = spectral_size(jnp, start)
  assert float(found) == pytest.approx(size, rel=2e-6, nan_ok=True)


def test_what_is_told_to_be_no_matrix_says_nothing():
  params = {'embedding': np.full((9, 4), 7.0), 'kernel': WIDE}
  found = SpectralPeak(0.5).peak(RunStart(params, (VECTOR, matrix((0,), (1,)))))
  assert found == pytest.approx(0.5 * SPECTRAL_SIZE, rel=1e-6)
  start = RunStart(params, (VECTOR, VECTOR))
  assert math.isnan(SpectralPeak(0.5).peak(start))


@pytest.mark.parametrize(
  ('steps', 'share'),
  (
    (None, 0.5),
    (1, 0.5),
    (400, 0.5),
    (401, 0.499376),
    (1600, 0.25),
    (40_000, 0.05),
  ),
)
def test_a_longer_run_takes_less(steps, share):
  start = RunStart({'kernel': WIDE}, steps=steps)
  found = SpectralPeak(0.5, whole=400.0).peak(start)
  assert found == pytest.approx(share * SPECTRAL_SIZE, rel=1e-5)


@pytest.mark.parametrize('width', (64, 256, 512))
def test_it_is_about_the_spectral_norm_at_every_width(width):
  """Of a square matrix of variance 1 / width, whose norm is about 2."""
  rng = np.random.default_rng(0)
  kernel = rng.normal(size=(width, width)) / math.sqrt(width)
  found = SpectralPeak(1.0).peak(RunStart({'w': kernel}))
  assert found == pytest.approx(1.0, rel=0.02)
  assert np.linalg.norm(kernel, 2) == pytest.approx(2.0, rel=0.05)


class OnlyATable(fake_benchmark.TinyWorkload):
  """Its only kernel is an embedding, by its types."""

  model_params_types = {'kernel': 'EMBEDDING', 'bias': 'BIAS'}


@pytest.mark.parametrize(
  ('generation', 'step_hint', 'length'),
  (('jit', 60, 1.0), ('pmap', 60, 1.0), ('jit', 12000, 0.5)),
)
def test_a_run_takes_its_peak_from_the_matrices(generation, step_hint, length):
  """Of 18,000 steps the first cycle has a fifteenth, four times 300."""
  driver = runs.newly_set_up(
    MUON, generation, evaluations={}, step_hint=step_hint
  )
  driver.step()
  run = driver.optimizer_state[1]
  later = jax.random.fold_in(run.rng, 2**31 - 1)
  fresh = driver.workload.init_model_fn(jax.random.fold_in(later, 2**31 - 1))
  kernel = np.float64(run.devices.get(fresh[0])['kernel'])
  share, fan_in = MUON.relative_peak.share, len(kernel)
  peak = length * share * math.sqrt(np.mean(kernel**2) * fan_in)
  # The cycles end after 1, 3, 7 and 15 fifteenths; up to 90 steps all is whole.
  falls = [1.0] * 4 if length == 1.0 else [1 / n**0.5 for n in (1, 3, 7, 15)]
  found = [
    run.control.rate_factor * planned.cycle.peak
    for planned in run.config.chain.cycles
  ]
  np.testing.assert_allclose(found, [peak * fall for fall in falls], rtol=1e-6)
  assert run.control.size == pytest.approx(peak / (length * share), rel=1e-6)


@pytest.mark.parametrize(
  ('steps', 'lengths'),
  (
    (300, [1, 1, 1, 1]),
    (1500, [1, 1, (300 / 700) ** 0.5, (300 / 1500) ** 0.5]),
    (18000, [(300 / n) ** 0.5 for n in (1200, 3600, 8400, 18000)]),
  ),
)
def test_peaks_fall_with_the_steps_until_a_cycle_ends(steps, lengths):
  """The cycles have the lengths 1, 2, 4 and 8."""
  chain = jax_lr_schedule(steps, MUON.cycles, 1.0, peak_factor=MUON.peak_factor)
  found = [planned.cycle.peak for planned in chain.cycles]
  np.testing.assert_allclose(found, [0.16 * n for n in lengths], rtol=1e-12)
  # A peak in proportion to the size of the weights is the same at any length.
  plan = jax_lr_schedule(
    steps, SOFT_RESET.cycles, 1.0, peak_factor=SOFT_RESET.peak_factor
  )
  assert {planned.cycle.peak for planned in plan.cycles} == {0.0025}


def test_a_run_without_a_matrix_has_the_peak_as_written():
  driver = runs.newly_set_up(MUON, OnlyATable(60), evaluations={})
  driver.step()
  control = driver.optimizer_state[1].control
  assert (control.rate_factor, control.size) == (1.0, 1.0)


@pytest.mark.parametrize('generation', ('jit', 'pmap'))
def test_a_run_at_written_peaks_has_the_size_of_its_model(generation):
  """Which is not made anew."""
  written = dataclasses.replace(MUON, relative_peak=None)
  driver = runs.newly_set_up(written, generation, evaluations={}, step_hint=60)
  run = driver.optimizer_state[1]
  kernel = np.float64(run.devices.get(driver.params)['kernel'])
  driver.step()
  size = math.sqrt(np.mean(kernel**2) * len(kernel))
  control = driver.optimizer_state[1].control
  assert control.size == pytest.approx(size, rel=1e-6)
  assert control.rate_factor == 1.0


def test_json_holds_a_spectral_peak():
  plain = as_plain(MUON)
  share = MUON.relative_peak.share
  assert plain['relative_peak'] == {
    **{'class': 'SpectralPeak', 'share': share, 'whole': 300.0}
  }
  assert settings_json.from_plain(plain) == MUON
  given = {'relative_peak': {'class': 'SpectralPeak', 'share': 0.5}}
  read = settings_json.from_plain(given, MUON)
  assert read.relative_peak == SpectralPeak(0.5)

"""The peak in proportion to matrices' spectral size: by hand, and in a run."""

import math

import jax
import numpy as np
import pytest

from helpers import fake_benchmark, runs
from reset_cycles.engine.records import as_plain
from reset_cycles.optimizers.spectral_peak import SpectralPeak
from reset_cycles.schedule_params import MUON, SOFT_RESET
from reset_cycles.views import settings_json

pytestmark = pytest.mark.usefixtures('compiled_quickly')

# rms 2.5, of two rows: 2.5 sqrt(2).
KERNEL = np.float32([[3.0, 4.0, 0.0], [0.0, 0.0, -5.0]]) * math.sqrt(0.75)
SIZE = 2.5 * math.sqrt(2.0)


@pytest.mark.parametrize(
  ('params', 'size'),
  (
    ({'kernel': KERNEL}, SIZE),
    ({'kernel': -2 * KERNEL}, 2 * SIZE),
    # Of three rows: in and out are not alike.
    ({'kernel': KERNEL.T}, 2.5 * math.sqrt(3.0)),
    # A convolution has 3 * 3 * 16 inputs; attention 64, as its output has.
    ({'conv': np.full((3, 3, 16, 32), 0.5)}, 0.5 * 12.0),
    ({'query': np.full((64, 8, 8), 0.5)}, 0.5 * 8.0),
    ({'out': np.full((8, 8, 64), 0.5)}, 0.5 * 8.0),
    # The geometric mean, in which every matrix counts alike.
    ({'a': KERNEL, 'b': np.full((8, 2), SIZE)}, SIZE * 8**0.25),
    # Vectors, a table of words, zeros and what is not finite say nothing.
    ({'kernel': KERNEL, 'bias': np.ones(2), 'norm': np.ones((1, 9))}, SIZE),
    ({'kernel': KERNEL, 'table': np.ones((65_537, 2))}, SIZE),
    ({'kernel': KERNEL, 'zeros': np.zeros((2, 2))}, SIZE),
    ({'kernel': KERNEL, 'other': np.full((2, 2), np.nan)}, SIZE),
    ({'kernel': 1e-25 * KERNEL}, 1e-25 * SIZE),
    ({'bias': np.ones(2)}, math.nan),
    ({}, math.nan),
  ),
  ids=(
    *('one', 'scaled', 'turned', 'convolution', 'query', 'out', 'two'),
    *('vectors', 'table', 'zeros', 'nan', 'tiny', 'no matrix', 'empty'),
  ),
)
def test_the_peak_by_hand(params, size):
  found = SpectralPeak(0.5).peak(params)
  assert found == pytest.approx(0.5 * size, rel=1e-6, nan_ok=True)


def test_what_is_told_to_be_no_matrix_says_nothing():
  params = {'embedding': np.full((9, 4), 7.0), 'kernel': KERNEL}
  found = SpectralPeak(0.5).peak(params, (False, True))
  assert found == pytest.approx(0.5 * SIZE, rel=1e-6)
  assert math.isnan(SpectralPeak(0.5).peak(params, (False, False)))


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
  found = SpectralPeak(0.5, whole=400.0).peak({'kernel': KERNEL}, None, steps)
  assert found == pytest.approx(share * SIZE, rel=1e-5)


@pytest.mark.parametrize('width', (64, 256, 512))
def test_it_is_about_the_spectral_norm_at_every_width(width):
  """Of a square matrix of variance 1 / width, whose norm is about 2."""
  rng = np.random.default_rng(0)
  kernel = rng.normal(size=(width, width)) / math.sqrt(width)
  assert SpectralPeak(1.0).peak({'w': kernel}) == pytest.approx(1.0, rel=0.02)
  assert np.linalg.norm(kernel, 2) == pytest.approx(2.0, rel=0.05)


class OnlyATable(fake_benchmark.TinyWorkload):
  """Its only kernel is an embedding, by its types."""

  model_params_types = {'kernel': 'EMBEDDING', 'bias': 'BIAS'}


@pytest.mark.parametrize(
  ('generation', 'step_hint', 'length'),
  (('jit', 60, 1.0), ('pmap', 60, 1.0), ('jit', 9000, 1 / 3)),
)
def test_a_run_takes_its_peak_from_the_matrices(generation, step_hint, length):
  """9,000 steps, half as many again in the plan, are nine times 1,500."""
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
  assert run.control.rate_factor * MUON.cycles[0].peak == pytest.approx(peak)


def test_a_run_without_a_matrix_has_the_peak_as_written():
  driver = runs.newly_set_up(MUON, OnlyATable(60), evaluations={})
  driver.step()
  assert driver.optimizer_state[1].control.rate_factor == 1.0


def test_json_holds_it():
  plain = as_plain(MUON)
  share = MUON.relative_peak.share
  assert plain['relative_peak'] == {
    **{'class': 'SpectralPeak', 'share': share, 'whole': 1500.0}
  }
  assert settings_json.from_plain(plain) == MUON
  given = {'relative_peak': {'class': 'SpectralPeak'}}
  read = settings_json.from_plain(given, SOFT_RESET)
  assert read.relative_peak == SpectralPeak()

"""Shapes, the chain of cycles, and the clock by which a run reads it."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import reference
from helpers.curves import assert_close
from reset_cycles.core import schedules
from reset_cycles.core.schedules import Cooldown, Cosine, Cycle, LinearWarmup
from reset_cycles.schedule_params import SOFT_RESET, THESIS

COSINE = Cosine()


@pytest.mark.parametrize(
  ('shape', 'values'),
  (
    (LinearWarmup(), {0: 0, 0.25: 0.25, 0.75: 0.75, 1: 1}),
    (LinearWarmup(start=0.5), {0: 0.5, 0.25: 0.625, 1: 1}),
    # (1 + cos(pi x)) / 2: at thirds, 3/4 and 1/4.
    (COSINE, {0: 1, 1 / 3: 0.75, 0.5: 0.5, 2 / 3: 0.25, 1: 0}),
    (Cosine(floor=0.2), {0: 1, 0.5: 0.6, 1: 0.2}),
    (Cooldown(0.25), {0: 1, 0.5: 1, 0.75: 1, 0.875: 0.5, 1: 0}),
    (Cooldown(1.0), {0: 1, 0.25: 0.75, 1: 0}),
  ),
  ids=repr,
)
def test_shapes_by_hand(shape, values):
  found = jax.jit(jax.vmap(shape))(np.float32(list(values)))
  np.testing.assert_allclose(found, list(values.values()), atol=1e-7)
  # Called with a number, as one would try it.
  for x, value in values.items():
    assert float(shape(x)) == pytest.approx(value, abs=1e-7)


def cycle(peak=0.5, warmup_factor=0.0, decay=COSINE, **fields):
  return Cycle(peak, warmup_factor=warmup_factor, decay=decay, **fields)


def lay_out(step_hint, *cycles, budget_factor=1.0):
  return schedules.jax_lr_schedule(step_hint, cycles, budget_factor)


def all_rates(planned):
  """Those of all steps of a chain."""
  samples = [
    schedules.sampled_rates(planned, c.steps + 1)[i, :-1]
    for i, c in enumerate(planned)
  ]
  return np.concatenate(samples)


@pytest.mark.parametrize(
  ('start', 'horizon', 'lengths', 'ends'),
  (
    (0, 12, (1, 1, 1), (4, 8, 12)),
    (0, 10, (1, 1, 1), (4, 7, 10)),  # the longer ones first
    (3, 12, (1, 1), (8, 12)),
    (0, 14, (1, 2, 4), (2, 6, 14)),
    (10, 100, (1, 2), (40, 100)),
    (0, 10, (0.1, 0.2, 0.7), (1, 3, 10)),  # in decimals, not in binary
    (10, 12, (1, 1, 1), (11, 12, 12)),  # one gets no step
    (5, 5, (1,), (5,)),
  ),
)
def test_how_steps_are_split(start, horizon, lengths, ends):
  assert schedules.cycle_ends(start, horizon, lengths) == ends


@pytest.mark.parametrize(
  ('step_hint', 'budget_factor', 'warmup_factor', 'steps', 'warmup'),
  (
    # Floors of decimals: of the run, and of a cycle's warm-up.
    (100, 0.29, 0.0, 29, 0),
    (7, 1.5, 0.0, 10, 0),
    (30, 0.1, 0.0, 3, 0),
    (100, 1.0, 0.29, 100, 29),
    (49, 1.0, 0.02, 49, 0),
    (5, 1.0, 1.0, 5, 5),
  ),
)
def test_the_steps_of_a_run_and_of_its_warmup(
  step_hint, budget_factor, warmup_factor, steps, warmup
):
  only = cycle(0.5, warmup_factor)
  found = lay_out(step_hint, only, budget_factor=budget_factor)
  assert found == ((steps, warmup, only),)


def test_chains_that_do_not_fit():
  with pytest.raises(
    ValueError,
    match=r'cycles have the lengths \[1.0, 1.0, 1.0\]: over 2 steps .* they '
    'get 1, 1, 0, and each needs at least one',
  ):
    lay_out(2, cycle(), cycle(), cycle())
  lay_out(3, cycle(), cycle(), cycle())
  with pytest.raises(ValueError, match='at most 2,147,483,647 steps'):
    lay_out(2**31, cycle())
  assert lay_out(2**31 - 1, cycle())[0].steps == 2**31 - 1


@pytest.mark.parametrize(
  ('params', 'step_hint'), ((THESIS, 500), (SOFT_RESET, 1001))
)
def test_sampled_rates_agree_with_their_twin(params, step_hint):
  planned = lay_out(
    step_hint, *params.cycles, budget_factor=params.budget_factor
  )
  expected = reference.chain_rates(step_hint, params)
  found = all_rates(planned)
  assert_close(found, expected, params.cycles[0].peak)
  # A cycle's rate at its end is its own, and not the next one's.
  samples = schedules.sampled_rates(planned)
  assert samples.shape == (len(planned), 1000)
  for rates, (steps, _, setting) in zip(samples, planned):
    local = np.linspace(0, steps, 1000).tolist()
    expected = [reference.cycle_rate(t, steps, setting) for t in local]
    assert_close(rates, expected, setting.peak)


def fails(x_from, value):
  """A shape that gives a value from a share of its phase on."""
  return lambda x, warmup=0.0: jnp.where(x >= x_from, value, 1.0)


@pytest.mark.parametrize(
  ('shape', 'said'),
  (
    (fails(0.375, -0.5), '-0.25'),
    (fails(0.875, math.nan), 'nan'),
    (fails(0.875, math.inf), 'inf'),
  ),
  ids=('negative', 'nan', 'infinite'),
)
@pytest.mark.parametrize('field', ('warmup', 'decay'))
def test_shapes_that_give_no_rates_are_refused(field, shape, said):
  bad = cycle(warmup_factor=float(field == 'warmup'), **{field: shape})
  with pytest.raises(
    ValueError, match=rf'^learning rate of cycles\[1\]={said}: .* at least 0'
  ):
    lay_out(16, cycle(), bad)


# The clock.


def at(clock, step):
  return clock._replace(count=np.int32(step))


# Cycles of 4, of 8 and of 4 steps, with 0, 2 and 4 steps of warm-up.
PLANNED = lay_out(16, cycle(0.7), cycle(0.5, 0.25, length=2.0), cycle(0.5, 1.0))


def test_a_clock_by_hand():
  # From nominal step 2 of 8, in 24 steps: a pace of a quarter.
  clock = schedules.anchored_clock(10, 2.0, 34, 1, PLANNED, 0.5)
  assert tuple(clock) == (10, 1, 8, 2, 10, 2.0, 0.25, 0.25)
  assert [x.dtype for x in clock] == ['int32'] * 5 + ['float32'] * 3
  for step, local in ((10, 2.0), (11, 2.25), (34, 8.0), (38, 9.0)):
    assert schedules.local_step(clock, step) == local
  # A peak beyond float32 stays finite.
  large = schedules.anchored_clock(0, 0.0, 4, 0, PLANNED, 1e39)
  assert large.peak == np.finfo(np.float32).max
  # In float64, on the host.
  third = schedules.anchored_clock(0, 0.0, 12, 0, PLANNED)
  assert schedules.local_step(third, 10**8 + 1) == (10**8 + 1) * float(
    np.float32(1 / 3)
  )


@pytest.mark.parametrize(
  ('count', 'local', 'scale'),
  ((0, 0.0, 1.0), (2**31 - 1, 1 / 3, 1e-44), (2**24 + 1, -0.0, 3e38)),
)
def test_a_clock_is_one_array_to_the_last_bit(count, local, scale):
  clock = schedules.anchored_clock(count, local, count + 7, 1, PLANNED, scale)
  words = schedules.packed(clock)
  assert (words.shape, str(words.dtype)) == ((8,), 'int32')
  for given in (words, jnp.asarray(words)):
    for kept, number in zip(schedules.unpacked(given), clock):
      assert kept.dtype == number.dtype
      assert np.asarray(kept).tobytes() == number.tobytes()


def test_any_clock_is_read_by_one_program(compilations):
  """As the twin reads its nominal steps, and at its end beyond them."""
  rate = jax.jit(functools.partial(schedules.learning_rate, cycles=PLANNED))
  rate(schedules.packed(schedules.anchored_clock(0, 0.0, 4, 0, PLANNED)))
  anchors = (
    (4, 0.0, 12, 1, 1.0),
    (5, 0.0, 105, 0, 0.25),  # stretched
    (7, 1.5, 10, 1, 4.0),  # compressed, in the middle of the warm-up
    (9, 2.0, 29, 1, 1.0),  # stretched from the peak on
    (12, 0.0, 16, 2, 1.0),  # nothing but a warm-up: it stays at the peak
    (2**24 + 1, 0.0, 2**24 + 9, 1, 1.0),  # steps that no float32 counts
  )
  found, expected = [], []
  with compilations() as compiled:
    for step, local, end, i, scale in anchors:
      clock = schedules.anchored_clock(step, local, end, i, PLANNED, scale)
      steps, _, setting = PLANNED[i]
      for now in range(step, end + 5):
        found.append(float(rate(schedules.packed(at(clock, now)))))
        t = min(schedules.local_step(clock, now), steps)
        expected.append(scale * reference.cycle_rate(t, steps, setting))
  assert compiled == []
  assert_close(found, expected, 4.0)


def test_a_cycles_end_counts():
  """Where the rate would jump; a warm-up's end is the decay's beginning."""
  bad = fails(1.0, math.nan)
  lay_out(16, cycle(warmup_factor=1.0, warmup=bad))
  with pytest.raises(ValueError, match=r'^learning rate of cycles\[0\]=.*nan'):
    lay_out(16, cycle(decay=bad))


def test_shapes_of_a_chain_may_differ():
  """Those of the current cycle count; a decay is told the warm-up's share."""

  def told(x, warmup=0.0):
    return warmup + 0.0 * x

  cycles = (
    cycle(1.0, 0.25, decay=told),
    cycle(1.0, 0.5, decay=Cooldown(1.0), warmup=LinearWarmup(0.5)),
    cycle(1.0, 0.5, decay=told),
  )
  found = all_rates(lay_out(12, *cycles))
  expected = [0, 0.25, 0.25, 0.25, 0.5, 0.75, 1, 0.5, 0, 0.5, 0.5, 0.5]
  np.testing.assert_allclose(found, expected, atol=1e-7)

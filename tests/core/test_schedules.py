"""The chain of cycles, and the clock by which a run reads it."""

from __future__ import annotations

import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.curves import read
from reset_cycles.core import schedules
from reset_cycles.core.cycle import Cosine, Cycle, Hparams, LinearWarmup
from reset_cycles.parts.chains import chain_of_lists

DATA = pathlib.Path(__file__).parents[1] / 'data'
PEAK = Hparams().learning_rate


COSINE = Cosine()


def cycle(peak=0.5, warmup_factor=0.0, decay=COSINE, **fields):
  hparams = Hparams(learning_rate=peak, warmup_factor=warmup_factor)
  return Cycle(hparams, decay=decay, **fields)


def lay_out(step_hint, *cycles, budget_factor=1.0):
  return schedules.jax_lr_schedule(step_hint, cycles, budget_factor)


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
  ('steps', 'warmup', 'expected'),
  (
    # Two steps of warm-up, then half a cosine over six.
    (8, 2, {0: 0, 1: 0.25, 2: 0.5, 4: 0.375, 5: 0.25, 6: 0.125, 8: 0}),
    (8, 0, {0: 0.5, 4: 0.25, 8: 0}),
    (5, 1, {0: 0, 1: 0.5, 3: 0.25, 5: 0}),
    (4, 4, {0: 0, 1: 0.125, 2: 0.25, 3: 0.375}),
  ),
)
def test_one_cycle_by_hand(steps, warmup, expected):
  schedule = schedules.combine_warmup_decay_fn(
    steps, warmup, 0.5, LinearWarmup(), Cosine()
  )
  found = read(schedule, np.array(list(expected)))
  np.testing.assert_allclose(found, list(expected.values()), atol=1e-7)


@pytest.mark.parametrize(
  ('step_hint', 'budget_factor', 'warmup_factor', 'fewest', 'steps', 'warmup'),
  (
    # Floors of decimals: of the run, and of a cycle's warm-up.
    (100, 0.29, 0.0, 0, 29, 0),
    (7, 1.5, 0.0, 0, 10, 0),
    (30, 0.1, 0.0, 0, 3, 0),
    (100, 1.0, 0.29, 0, 100, 29),
    (49, 1.0, 0.02, 0, 49, 0),
    (5, 1.0, 1.0, 0, 5, 5),
    # At least so many steps, up to the cycle's.
    (50, 1.0, 0.1, 4, 50, 5),
    (50, 1.0, 0.1, 6, 50, 6),
    (5, 1.0, 0.1, 6, 5, 5),
  ),
)
def test_the_steps_of_a_run_and_of_its_warmup(
  step_hint, budget_factor, warmup_factor, fewest, steps, warmup
):
  only = cycle(0.5, warmup_factor, min_warmup_steps=fewest)
  chain = lay_out(step_hint, only, budget_factor=budget_factor)
  assert (chain.has_multiple, chain.reinit_steps) == (False, ())
  found = [(c.steps, c.warmup_steps) for c in chain.cycles]
  assert found == [(steps, warmup)]


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


@pytest.mark.oracle
@pytest.mark.parametrize('name', ('3.3a', '3.3c_publiccode'))
def test_the_thesis_chain_agrees_with_reference_values(name):
  """Equal cycles, the longer ones first; the peaks of figure 3.3a."""
  key = f'fig{name}|T=1600|even'
  data = json.loads((DATA / 'thesis_chain.json').read_text())[key]
  added = [round(peak - data['peaks'][0], 9) for peak in data['peaks']]
  cycles = chain_of_lists(alter_lr=added)
  chain = schedules.jax_lr_schedule(800, cycles, 2.0)
  assert [c.steps for c in chain.cycles] == data['lengths']
  assert [*chain.reinit_steps, 1600] == data['boundaries']
  assert chain.has_multiple
  first = data['lengths'][0]
  count = 1600 if set(data['decays']) == {'cosine'} else first
  found = read(chain.schedule, np.arange(count))
  expected = data['values'][: len(found)]
  np.testing.assert_allclose(found, expected, rtol=0, atol=2e-9)


class Fails:
  def __init__(self, step, value):
    self.step, self.value = step, value

  def schedule(self, phase):
    return lambda count: jnp.where(count == self.step, self.value, 1.0)


@pytest.mark.parametrize(
  ('field', 'shape', 'said'),
  (
    ('decay', Fails(3, -0.5), 'the learning rate is -0.25 at step 3'),
    ('decay', Fails(8, math.nan), 'the learning rate is nan at step 8'),
    ('decay', Fails(8, math.inf), 'the learning rate is inf at step 8'),
    ('weight_decay_shape', Fails(8, math.nan), 'the weight decay is nan at'),
  ),
)
def test_schedules_that_are_no_rates_are_refused(field, shape, said):
  chain = lay_out(16, cycle(), cycle(**{field: shape}))
  with pytest.raises(ValueError, match=rf'cycles\[1\]: {said}'):
    schedules.check_rates(chain.cycles)
  schedules.check_rates(lay_out(16, cycle()).cycles)


# The clock.


def at(clock, step):
  return clock._replace(count=np.int32(step))


def test_a_clock_by_hand():
  # From nominal step 2 of 4, in 8 steps: a pace of a quarter.
  clock = schedules.anchored_clock(10, 1, 2.0, 4, 18, 0.5)
  assert tuple(clock) == (10, 1, 10, 2.0, 0.25, 0.5)
  assert [x.dtype for x in clock] == ['int32'] * 3 + ['float32'] * 3
  for step, local in ((10, 2.0), (11, 2.25), (18, 4.0), (20, 4.5)):
    assert schedules.local_step_on_host(clock, step) == local
    assert schedules.local_step(at(clock, step)) == local


def test_at_pace_1_the_clock_reads_the_static_chain_to_the_last_bit():
  chain = lay_out(300, cycle(0.7, 0.1), cycle(0.3, 0.05))
  rate = jax.jit(lambda clock: schedules.learning_rate(clock, chain.cycles))
  planned = read(chain.schedule, np.arange(300))
  start = 0
  for i, planned_cycle in enumerate(chain.cycles):
    end = start + planned_cycle.steps
    clock = schedules.anchored_clock(start, i, 0.0, planned_cycle.steps, end)
    found = [float(rate(at(clock, step))) for step in range(start, end)]
    np.testing.assert_array_equal(np.float32(found), planned[start:end])
    start = end


def test_a_rate_is_scaled_and_stays_after_the_end():
  chain = lay_out(8, cycle(0.5, decay=Fails(9, 7.0)))
  clock = schedules.anchored_clock(0, 0, 0.0, 8, 8, scale=0.5)
  for step, rate in ((0, 0.25), (8, 0.25), (9, 0.25), (99, 0.25)):
    found = schedules.learning_rate(at(clock, step), chain.cycles)
    assert float(found) == pytest.approx(rate, abs=1e-7)


def test_weight_decays_by_hand():
  shaped = cycle(0.5, weight_decay_shape=Cosine())
  plain = cycle(0.5)
  other = Cycle(Hparams(weight_decay=0.5))
  decay = shaped.hparams.weight_decay
  for cycles, step, expected in (
    ((plain, plain), 6, decay),
    ((plain, other), 6, 0.5),
    ((plain, other), 0, decay),
    ((shaped, other), 2, decay / 2),  # half of its four steps
    ((shaped, other), 6, 0.5),
  ):
    chain = lay_out(8, *cycles)
    i = step // 4
    clock = at(schedules.anchored_clock(4 * i, i, 0.0, 4, 4 * i + 4), step)
    found = schedules.weight_decay(clock, chain.cycles)
    assert float(found) == pytest.approx(expected, rel=1e-6)
    assert isinstance(found, float) == (cycles == (plain, plain))
